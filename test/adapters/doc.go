// Package adapters has examples, to be copied: how a program with another source of messages than Lambda and
// package kafka/consumer handles each message once. docs/adapters.md says which example is for what. A file is
// an example that needs no other file, except settle.go, which those for Kafka share. This is a package of the
// test module, so that the library requires none of the clients.
package adapters

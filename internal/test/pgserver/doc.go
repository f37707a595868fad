// Package pgserver runs a real PostgreSQL server, 15 or later, as a process of a test: in a temporary folder,
// on a free port of 127.0.0.1. It ends the server by its process ID. A server can be stopped, crashed,
// restarted on the same port, and followed by a standby that can be promoted.
//
// The server is the one that scripts/postgres.sh has installed, or one that is installed on the machine.
// PostgreSQL refuses to run as root: then it runs as another user (user.go).
package pgserver

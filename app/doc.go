// Package app builds from environment variables what a handler runs with: the configuration, the store, the
// engine, the dead letters and the logger. The hosts are app/lambda, for Lambda functions, and app/process,
// for long-running processes. Both read the same variables and take the same stores, so a handler moves from
// one to the other unchanged.
//
// Most programs need only the Start of their host. Config lists the variables.
package app

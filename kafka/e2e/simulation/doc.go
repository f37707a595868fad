// Package simulation tests the whole function in virtual time.
package simulation

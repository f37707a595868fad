// Package modules has the tests of what the modules of this repository require.
package modules

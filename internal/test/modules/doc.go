// Package modules tests the requirements of this repository's modules.
package modules

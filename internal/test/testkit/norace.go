//go:build !race

package testkit

// race reports whether the race detector is on.
const race = false

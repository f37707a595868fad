// Package e2e has the tests of the guarantees that hold between processes on real stores: processes that are
// paused beyond their lease, clocks that differ, and networks that fall silent. It has no code of its own.
package e2e

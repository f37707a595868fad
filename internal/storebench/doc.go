// Package storebench measures the stores side by side, each on a real server on this host. scripts/bench-stores.sh runs it and
// writes what it finds into docs/stores.md.
package storebench

// Package storebench measures the stores with the same benchmark, each on a real server on this host.
// scripts/bench-stores.sh runs it and writes the results into docs/stores.md.
package storebench

// Package release tests what scripts/release.sh writes.
package release

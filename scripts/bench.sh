#!/usr/bin/env bash
# Benchmarks: what a record costs in the engine, in the consumer and in the stores, what idemsk local delivers with a function that
# does nothing (records/s; %own-CPU is the emulator's share of all CPU time), and how large the function is.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh
go test -run '^$' -bench . -benchmem -count "${COUNT:-3}" ./idem/... ./lambda/... ./internal/... ./cmd/...
stat -c '%n %s' dist/handler-*/bootstrap | awk '{printf "%s %.1f MB unzipped\n", $1, $2 / 1e6}'

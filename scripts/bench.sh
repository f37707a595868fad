#!/usr/bin/env bash
# Benchmarks: what a record costs in the consumer, with its engine, and in the stores, what idemsk local delivers with a function that
# does nothing (records/s; %own-CPU is the emulator's share of all CPU time), what the polling relay of an outbox sends and how soon
# (both fail below their bars), and how large the function is.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh
scripts/postgres.sh install
scripts/redis.sh install
scripts/kafka.sh install
go test -tags servers -run '^$' -bench . -benchmem -count "${COUNT:-3}" ./idem/... ./lambda/... ./internal/... ./cmd/...
go test -tags servers,rest -run '^$' -bench Relay -benchtime 50000x -count "${COUNT:-3}" ./outbox/pgoutbox
go test -tags servers,rest -run '^$' -bench KafkaConnect -benchtime 100000x -count "${COUNT:-3}" ./outbox/pgoutbox
go test -tags servers,rest -run '^$' -bench Commit -benchtime 300x -count "${COUNT:-3}" ./outbox/pgoutbox
stat -c '%n %s' dist/handler-*/bootstrap | awk '{printf "%s %.1f MB unzipped\n", $1, $2 / 1e6}'

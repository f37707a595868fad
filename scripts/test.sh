#!/usr/bin/env bash
# test.sh [GO TEST FLAGS]: the tests that a change needs: all but those with the build tags rest and docs and those of the construct,
# which test-rest.sh runs. If IDEMSK_TRACE_DIR names a folder, the traces of the stores are written there.
set -euo pipefail
cd "$(dirname "$0")/.."

[[ $(go env GOOS) == darwin ]] || command -v gcc >/dev/null || {
  echo "test: install gcc (the race detector needs cgo, except on macOS; Debian: build-essential)" >&2
  exit 1
}
for server in scripts/postgres.sh scripts/redis.sh localstack/localstack.sh; do $server install; done

# DynamoDB Local runs for less than a minute, which does not repay the optimising compiler and the parallel garbage collector.
export JAVA_TOOL_OPTIONS='-XX:+UseSerialGC -XX:TieredStopAtLevel=1'
results=$(mktemp)
trap 'rm -f "$results"' EXIT
result=0
# -vet=off: make lint vets all packages. -p 4: many tests wait rather than compute. synctests: franz-go waits for its locks in a way
# that lets the virtual time of synctest pass; without it a test can stand still.
go test -race -vet=off -p 4 -tags servers,synctests -timeout 15m "$@" $(go list work | grep -vE '/infra/cdk(/.*)?$') |
  tee "$results" || result=$?
# Without the race detector: all states of the scheduler's machine, which has no goroutines, and the memory that values take.
go test -vet=off -run '^(TestAllStates|TestRandomWalks|Fuzz.*Budget)$' ./idem/internal/machine ./kafka ./schema | tee -a "$results" || result=$?
[[ $result == 0 ]] || exit "$result"
echo "test: all passed after $((SECONDS / 60)) min $((SECONDS % 60)) s; the slowest packages:"
awk '$1 == "ok" && $3 ~ /s$/ { print $3, $2 }' "$results" | sort -rn | sed 5q

#!/usr/bin/env bash
# Runs every test. LocalStack must be down, because the documents' commands and the tests start and stop it.
set -euo pipefail
cd "$(dirname "$0")/.."

tags=servers,localstack # of the tests that need PostgreSQL, Redis, Kafka or DynamoDB Local, and of those that need LocalStack
missing=()
command -v go >/dev/null || missing+=("Go 1.26 or newer (https://go.dev/dl)")
[[ $(go env GOOS 2>/dev/null) == darwin ]] || command -v gcc >/dev/null || missing+=("gcc (the race detector needs cgo, except on macOS; Debian: build-essential)")
command -v javac >/dev/null || missing+=("a JDK, 17 or later (Debian: openjdk-17-jdk-headless)")
command -v mvn >/dev/null || missing+=("Maven (Debian: maven)")
command -v zip >/dev/null || missing+=("zip (Debian: zip)")
if [ ${#missing[@]} -gt 0 ]; then
  printf 'test: install %s\n' "${missing[@]}" >&2
  exit 1
fi
if localstack/localstack.sh status >/dev/null; then
  echo "test: LocalStack is up, and the commands of the documents start and end it: make localstack-down" >&2
  exit 1
fi

# Installations and builds are slow, and independent of each other.
localstack/localstack.sh install &
localstack=$!
scripts/runtimes.sh >/dev/null &
runtimes=$!
scripts/chromium.sh >/dev/null &
chromium=$!
scripts/postgres.sh install &
postgres=$!
scripts/redis.sh install &
redis=$!
{ scripts/kafka.sh install && outbox/debezium/debezium.sh install; } &
debezium=$!
scripts/build.sh
wait "$localstack"
wait "$runtimes"
wait "$chromium"
wait "$postgres"
wait "$redis"
wait "$debezium"

results=$(mktemp)
lane=
finish() {
  [[ -z $lane ]] || kill -- "-$lane" 2>/dev/null || true
  localstack/localstack.sh down
  rm -rf "$IDEMSK_TRACE_DIR" "$results"
}
trap finish EXIT

# The tests of the stores record traces, which the model must explain.
IDEMSK_TRACE_DIR=$(mktemp -d)
export IDEMSK_TRACE_DIR

# packages FLAGS PACKAGES…: their tests. Without go vet, which make lint runs for all packages.
packages() { go test -race -vet=off -tags "$tags" -timeout 30m "$@" | tee -a "$results"; }

# The commands of the documents come first, because they start and stop LocalStack.
with_localstack() {
  make --no-print-directory test-docs
  localstack/localstack.sh up >/dev/null
  # The construct and the stack. Without -race, because it reports a race in jsii.
  # Without the test cache, which does not notice changes of the documents.
  (cd infra/cdk && go test -count=1 -vet=off -timeout 10m . ./consumer)
  IDEMSK_TEST_ENDPOINT="http://127.0.0.1:${LOCALSTACK_PORT:-4566}" packages "$@"
}

# What needs LocalStack runs beside all other tests, because many tests wait rather than compute. In a process group of its own, so
# that an interrupted make test ends it.
on_localstack=$(go list -tags "$tags" $(git grep -lE '^//go:build .*localstack' -- '*_test.go' | sed 's|/[^/]*$||; s|^|./|' | sort -u))
others=$(go list -tags "$tags" work | grep -vE '/infra/cdk(/consumer)?$|/test/(kafka|simulation)$' | grep -vxF "$on_localstack")
set -m
with_localstack "$@" $on_localstack </dev/null &
lane=$!
set +m
result=0
packages "$@" $others || result=$?
# A machine has no goroutines: all its states are visited without the race detector.
go test -vet=off -run '^(TestAllStates|TestRandomWalks)$' ./idem/schedule | tee -a "$results" || result=$?
# With this tag franz-go waits for its locks in a way that lets the virtual time of synctest pass. Without it a test can stand still.
packages -tags "$tags,synctests" "$@" ./test/kafka ./test/simulation || result=$?
# With -race the interpreter of WebAssembly takes many minutes, and the seeds that have each pair of settings take four.
IDEMSK_TRACE_DIR='' SIMULATE_SEEDS=0-499 packages -race=false -tags "$tags,synctests" -run 'TestOrderIsRepeatedExactly|^TestSimulation$' "$@" ./test/simulation || result=$?
wait "$lane" || result=$?
lane=
traces=$SECONDS
scripts/trace.sh "$IDEMSK_TRACE_DIR" || result=$?
traces=$((SECONDS - traces))
[[ $result == 0 ]] || exit "$result"
echo "test: all passed after $((SECONDS / 60)) min $((SECONDS % 60)) s, the check of the traces took $traces s of them; the slowest packages:"
awk '$1 == "ok" && $3 ~ /s$/ { print $3, $2 }' "$results" | sort -rn | sed 5q

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
scripts/postgres.sh install &
postgres=$!
scripts/redis.sh install &
redis=$!
{ scripts/kafka.sh install && outbox/debezium/debezium.sh install; } &
debezium=$!
scripts/build.sh
go vet -tags "$tags,docs" work # the packages of all modules
wait "$localstack"
wait "$runtimes"
wait "$postgres"
wait "$redis"
wait "$debezium"

# Two lanes run at the same time, each in a process group of its own. What a lane prints is shown when it has ended.
logs=$(mktemp -d "${TMPDIR:-/tmp}/idemsk-test.XXXXXX")
declare -A lanes=() # by process ID, the name

lane() { # NAME FUNCTION
  echo "test: $1: started"
  set -m # a process group
  (
    trap - EXIT
    "$2"
  ) >"$logs/$1" 2>&1 &
  set +m
  lanes[$!]=$1
}

finish() { # ends the lanes that still run, when the script ends
  trap '' INT TERM
  local group
  for group in "${!lanes[@]}"; do
    kill -TERM -- "-$group" 2>/dev/null && echo "test: ${lanes[$group]}: interrupted" >&2
  done
  wait || true
  localstack/localstack.sh down
  rm -rf "$logs"
}
trap finish EXIT
trap 'exit 130' INT TERM

# The packages with tests on LocalStack.
mapfile -t on_localstack < <(git grep --untracked -lE '^//go:build localstack$' -- '*_test.go' | sed -E 's|^|./|; s|/[^/]*$||' | sort -u)
flags=("$@") # of go test

# The documents' commands start and stop LocalStack, so the tests on it come after them.
localstack_lane() {
  local failed=0
  make --no-print-directory test-docs || failed=1
  localstack/localstack.sh up >/dev/null
  IDEMSK_TEST_ENDPOINT="http://127.0.0.1:${LOCALSTACK_PORT:-4566}" \
    go test -race -tags "$tags" -timeout 20m "${flags[@]}" "${on_localstack[@]}" || failed=1
  return $failed
}

# The construct and the stack: without -race, because it reports a race in jsii, and without the test cache, which does not notice
# changes of the documents. Then the packages of all modules that need no LocalStack.
others_lane() {
  local failed=0 packages
  (cd infra/cdk && go test -count=1 -timeout 10m . ./consumer) || failed=1
  packages=$(comm -23 <(go list -tags servers work | grep -vE '/infra/cdk(/consumer)?$' | sort) <(go list -tags "$tags" "${on_localstack[@]}" | sort))
  # shellcheck disable=SC2086 # a package has no blanks
  go test -race -tags servers -timeout 20m "${flags[@]}" $packages || failed=1
  return $failed
}

lane "documents and LocalStack" localstack_lane
lane "everything else" others_lane
result=0
while [ ${#lanes[@]} -gt 0 ]; do
  status=0
  wait -n -p ended "${!lanes[@]}" || status=$?
  name=${lanes[$ended]}
  unset "lanes[$ended]"
  cat "$logs/$name"
  if [ $status -eq 0 ]; then
    echo "test: $name: passed after ${SECONDS} s"
  else
    echo "test: $name: FAILED after ${SECONDS} s" >&2
    result=1
  fi
done
exit $result

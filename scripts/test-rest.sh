#!/usr/bin/env bash
# test-rest.sh: the tests that make test leaves out. LocalStack must be down, because the documents' commands and this script start
# and stop it. They are
#   - the commands of the documents (the build tag docs),
#   - the tests with the build tag rest: on LocalStack or Apache Kafka, with other languages or a browser, of servers and processes
#     that are killed, of traces,
#   - the construct (infra/cdk), which needs Node.js,
#   - the seeds of the simulation that have each pair of settings,
#   - the model: it must explain the traces of these tests, and those in IDEMSK_TRACE_DIR if make test wrote some.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
command -v javac >/dev/null || missing+=("a JDK, 17 or later (Debian: openjdk-17-jdk-headless)")
command -v mvn >/dev/null || missing+=("Maven (Debian: maven)")
command -v zip >/dev/null || missing+=("zip (Debian: zip)")
command -v jq >/dev/null || missing+=("jq (Debian: jq)")
if [ ${#missing[@]} -gt 0 ]; then
  printf 'test-rest: install %s\n' "${missing[@]}" >&2
  exit 1
fi
if localstack/localstack.sh status >/dev/null; then
  echo "test-rest: LocalStack is up, and the commands of the documents start and end it: make localstack-down" >&2
  exit 1
fi

# Installations and builds are slow, and independent of each other.
installations=()
for installation in "localstack/localstack.sh install" "scripts/runtimes.sh" "scripts/powertools.sh" "scripts/chromium.sh" \
  "scripts/postgres.sh install" "scripts/redis.sh install" "scripts/kafka.sh install" "scripts/rabbitmq.sh install" \
  "scripts/templates.sh cfn-lint --version"; do
  $installation >/dev/null &
  installations+=($!)
done
scripts/build.sh
for installation in "${installations[@]}"; do wait "$installation"; done
outbox/debezium/debezium.sh install

lane='' made=''
[[ -n ${IDEMSK_TRACE_DIR:-} ]] || made=$(mktemp -d)
export IDEMSK_TRACE_DIR=${IDEMSK_TRACE_DIR:-$made}
finish() {
  [[ -z $lane ]] || kill -- "-$lane" 2>/dev/null || true
  localstack/localstack.sh down
  [[ -z $made ]] || rm -rf "$made"
}
trap finish EXIT

# The tests in the files with the tag rest. go list omits nothing: these packages have files without it too.
files=$(git grep -lE '^//go:build rest$' -- '*_test.go')
tests="^($(grep -ohP '^func \K(Test|Example|Fuzz)\w+' $files | grep -vx TestMain | sort -u | paste -sd '|'))\$"
folders() { sed 's|/[^/]*$||; s|^|./|' | sort -u; }
on_localstack=$(grep -l 'awstest\.LocalStack' $files | folders)
others=$(folders <<<"$files" | grep -vxF "$on_localstack" | grep -vxF ./infra/cdk/linttest)
rest() { go test -race -vet=off -p 4 -tags servers,rest,synctests -timeout 30m -run "$tests" "$@"; }

# The commands of the documents come first, because they start and stop LocalStack.
with_localstack() {
  make --no-print-directory test-docs
  localstack/localstack.sh up >/dev/null
  # Without -race, because it reports a race in jsii, here and in linttest. Without the test cache, which does not notice changes of the
  # documents.
  (cd infra/cdk && go test -count=1 -vet=off -timeout 10m . ./consumer ./awscheck)
  IDEMSK_TEST_ENDPOINT="http://127.0.0.1:${LOCALSTACK_PORT:-4566}" rest $on_localstack
}

# What needs LocalStack runs beside the others, because many tests wait rather than compute. In a process group of its own, so that
# an interrupted run ends it.
set -m
with_localstack </dev/null &
lane=$!
set +m
result=0
rest $others || result=$?
(cd infra/cdk && go test -count=1 -vet=off -tags rest -timeout 10m ./linttest) || result=$?
# With -race the interpreter of WebAssembly takes many minutes, and the seeds take four.
IDEMSK_TRACE_DIR='' SIMULATE_SEEDS=0-499 go test -vet=off -tags rest,synctests -timeout 30m -run 'TestOrderIsRepeatedExactly|^TestSimulation$' \
  ./test/simulation || result=$?
wait "$lane" || result=$?
lane=
scripts/trace.sh "$IDEMSK_TRACE_DIR" || result=$?
[[ $result == 0 ]] || exit "$result"
echo "test-rest: all passed after $((SECONDS / 60)) min $((SECONDS % 60)) s"

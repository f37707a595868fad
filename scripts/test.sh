#!/usr/bin/env bash
# Runs every test. Starts LocalStack if it is not up, and then stops it again.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
command -v go >/dev/null || missing+=("Go 1.26 or newer (https://go.dev/dl)")
command -v gcc >/dev/null || missing+=("gcc (the race detector needs it; Debian: build-essential)")
if [ ${#missing[@]} -gt 0 ]; then
  printf 'test: install %s\n' "${missing[@]}" >&2
  exit 1
fi

# The installation of LocalStack and the build of the tests take their time; neither needs the other.
localstack/localstack.sh install &
installing=$!
scripts/build.sh
go vet -tags localstack ./...
wait "$installing"

state=$(localstack/localstack.sh up | tail -n 1)
if [ "$state" = started ]; then
  trap 'localstack/localstack.sh down' EXIT
fi
IDEMSK_TEST_ENDPOINT="http://127.0.0.1:${LOCALSTACK_PORT:-4566}" \
  go test -race -tags localstack -timeout 20m "$@" ./...

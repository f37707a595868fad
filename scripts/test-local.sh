#!/usr/bin/env bash
# test-local.sh [GO TEST FLAGS]: the end-to-end tests of idemsk local. LocalStack is started if it is not up, and then stopped
# again; the tests start Kafka and DynamoDB Local themselves. IDEMSK_TEST_LONG=1 has them deliver all their records.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/kafka.sh install
scripts/postgres.sh install
scripts/runtimes.sh >/dev/null
IDEMSK_TEST_ENDPOINT="http://127.0.0.1:${LOCALSTACK_PORT:-4566}" \
  scripts/with-localstack.sh go test -tags rest -count=1 -timeout 20m "$@" ./cmd/idemsk/internal/local/e2e/...

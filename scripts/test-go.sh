#!/usr/bin/env bash
# test-go.sh [GO TEST FLAGS]: the tests of all modules that need Go alone, and then what was left out. The construct's tests need
# Node.js; those with a build tag need servers, which make test installs and starts. go test itself does not name what it leaves out.
# -short: the crash test of the ledger with a quarter of its payments and kills. -p 4: many tests wait rather than compute.
set -euo pipefail
cd "$(dirname "$0")/.."
result=0
go test -short -p 4 "$@" $(go list work | grep -vE '/infra/cdk(/consumer)?$') || result=$?
echo "Left out: infra/cdk (Node.js), and these numbers of test files (servers: PostgreSQL, Redis, Kafka, DynamoDB Local; localstack; docs):"
git grep -E '^//go:build (servers|localstack|docs)$' -- '*_test.go' | sed -E 's|/[^/]*:.*:build | |' | sort | uniq -c
echo "The crash test of the ledger ran with a quarter of its payments."
echo "make test runs all of them in full; make test-stores those of the stores; make test-local those of idemsk local; make test-docs those of the documents."
exit $result

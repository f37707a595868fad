#!/usr/bin/env bash
# test-go.sh [GO TEST FLAGS]: the tests of all modules that need Go alone, and then what was left out. The construct's tests need
# Node.js; those with a build tag need servers, which make test installs and starts. go test itself does not name what it leaves out.
# -p 4: many tests wait rather than compute. synctests: franz-go's locks in virtual time, see test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
result=0
go test -tags synctests -p 4 "$@" $(go list work | grep -vE '/infra/cdk(/.*)?$') || result=$?
echo "Left out: infra/cdk (Node.js), and these numbers of test files (servers: PostgreSQL, Redis, DynamoDB Local; rest, docs: make test-rest):"
git grep -E '^//go:build (servers|rest|docs)$' -- '*_test.go' | sed -E 's|/[^/]*:.*:build | |' | sort | uniq -c
echo "make test and make test-rest run all of them; make test-long some with more records and kills; make test-stores those of the stores; make test-local those of idemsk local; make test-docs those of the documents."
exit $result

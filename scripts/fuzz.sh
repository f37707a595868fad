#!/usr/bin/env bash
# fuzz.sh [TIME]: runs every fuzz test of all modules for TIME (default 20s), one after another. A value that fails is kept in testdata/fuzz of the package:
# commit it with the repair, and go test runs it from then on. Fuzz tests need no server, so they have no build tag.
set -euo pipefail
cd "$(dirname "$0")/.."
result=0
while IFS=: read -r file test; do
  dir=$(dirname "$file")
  echo "$dir $test"
  (cd "$dir" && go test -run "^$test\$" -fuzz "^$test\$" -fuzztime "${1:-20s}" -fuzzminimizetime 1s .) | tail -n 20 || result=1
done < <(git grep -oE '^func Fuzz\w+' -- '*_test.go' | sed 's/:func /:/')
exit $result

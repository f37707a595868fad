#!/usr/bin/env bash
# prove.sh [METHOD…]: runs the methods of docs/proof.md one after another, all unless some are named, sized for an hour on 2 idle cores. Prints
# a table of their results, and exits with 1 if one fails. SEED=7 repeats the seeds. The output of each method is in dist/prove.
# LocalStack must be down, because the commands of the documents start and stop it.
set -uo pipefail
cd "$(dirname "$0")/.."
for server in scripts/postgres.sh scripts/redis.sh scripts/kafka.sh localstack/localstack.sh; do $server install >&2 || exit; done
methods=" $* "
logs=dist/prove
mkdir -p "$logs"
seed=${SEED:-$((RANDOM + 1))}
failed=0

# prove METHOD SIZE SEED COMMAND…
prove() {
  [[ $methods == "  " || $methods == *" $1 "* ]] || return 0
  local row="| $1 | $2 | $3 |" log=$logs/$1.log result=passed began=$SECONDS
  shift 3
  "$@" >"$log" 2>&1 </dev/null || { result="FAILED: $log" failed=1; }
  echo "$row $result | $(((SECONDS - began) / 60)) min $(((SECONDS - began) % 60)) s |"
}

echo "commit $(git rev-parse --short HEAD)$([ -z "$(git status --porcelain)" ] || echo ', with changes'), $(date -u +%F), $(nproc) cores"
echo
echo "| method | size | seed | result | time |"
echo "| --- | --- | --- | --- | --- |"
prove model "all configurations" – scripts/model.sh
prove conformance "all broken stores" – go test -count=1 -tags servers,rest -timeout 30m ./idem/storetest
prove traces "all stores" – make trace
prove histories "100,000 operations" "$seed" make linear OPS=100000 SEED="$seed"
prove simulation "2,000 seeds" "$seed-$((seed + 1999))" make simulate SEEDS="$seed-$((seed + 1999))"
prove pauses "all stores" – go test -count=1 -tags rest -timeout 30m ./idem/e2e
prove mutation "all but the outbox" – make mutate MUTATE='idem/(store|dynamostore|redisstore|pgstore|batch|session)'
prove soak "100,000 records" "$seed" env IDEMSK_TEST_SEED="$seed" make soak RECORDS=100000
prove run "10,000 payments" "$seed" make run SEED="$seed"
prove crashes "200 kills" – make test-long
prove torture "10,000 records, 50 events, two stores" "$seed" make torture RECORDS=10000 EVENTS=50 SEED="$seed"
prove fuzzing "10 s a test" – make fuzz TIME=10s
prove documents "all commands" – make test-docs
exit $failed

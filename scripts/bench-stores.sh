#!/usr/bin/env bash
# Runs the stores' common benchmark on every store, and writes the table into docs/stores.md: medians, and their proportion to
# PostgreSQL. BENCHTIME (default 1s) is how long each is measured, COUNT (default 5) how often.
set -euo pipefail
cd "$(dirname "$0")/.."
page=docs/stores.md

scripts/postgres.sh install
scripts/redis.sh install
results=$(mktemp)
table=$(mktemp)
trap 'rm -f "$results" "$table"' EXIT
read -r load _ </proc/loadavg # what else the machine does
for ((run = 0; run < ${COUNT:-5}; run++)); do # each on new servers: the benchmark wants a store without its keys
  go test -tags servers -run '^$' -bench BenchmarkStores -benchtime "${BENCHTIME:-1s}" -count 1 -timeout 10m ./internal/test/storebench | tee -a "$results"
done

awk -v cpu="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" -v cores="$(nproc)" -v day="$(date -u +%F)" -v load="$load" '
  function median(values, n, parts, i, j, t) {
    n = split(values, parts, " ")
    for (i = 1; i < n; i++) for (j = i + 1; j <= n; j++) if (parts[j] + 0 < parts[i] + 0) { t = parts[i]; parts[i] = parts[j]; parts[j] = t }
    return parts[int((n + 1) / 2)]
  }
  function cell(store, kind, ns, base) {
    ns = median(seen[store, kind])
    base = median(seen["PostgreSQL", kind])
    return sprintf(ns < 10000 ? "%.4f ms" : "%.2f ms", ns / 1e6) sprintf(ns / base < 0.095 ? " (%.3f)" : " (%.1f)", ns / base)
  }
  /^BenchmarkStores\// {
    name = $1
    sub(/^BenchmarkStores\//, "", name); sub(/-[0-9]+$/, "", name)
    kind = name; sub(/.*\//, "", kind); sub(/\/[^\/]*$/, "", name); gsub("_", " ", name)
    if (!(name in known)) { known[name] = 1; order[++stores] = name }
    seen[name, kind] = seen[name, kind] " " $3
  }
  END {
    printf "A record at a time, median of %s runs, %s, %s cores (%s), load before the run %s. In brackets: in proportion to PostgreSQL.\n\n", ENVIRON["COUNT"] ? ENVIRON["COUNT"] : 5, day, cores, cpu, load
    print "| store | fresh: claim and completion | duplicate | contended: a claim on a key in flight |"
    print "| --- | --- | --- | --- |"
    for (i = 1; i <= stores; i++) printf "| %s | %s | %s | %s |\n", order[i], cell(order[i], "fresh"), cell(order[i], "duplicate"), cell(order[i], "contended")
  }' "$results" >"$table"

awk -v table="$table" '
  /<!-- bench-stores: begin -->/ { print; while ((getline line < table) > 0) print line; skip = 1 }
  /<!-- bench-stores: end -->/ { skip = 0 }
  !skip || /<!-- bench-stores: end -->/ { if (!/<!-- bench-stores: begin -->/) print }' "$page" >"$results"
cat "$results" >"$page"

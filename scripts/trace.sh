#!/usr/bin/env bash
# trace.sh [FOLDER]: checks with TLC that the models (docs/spec/trace.tla, tracelanes.tla for lanes) explain the traces in a folder and its
# subfolders. Tests write them if IDEMSK_TRACE_DIR names a folder (idem/storetest/trace.go, internal/trace/dynamotrace,
# idem/trace_test.go), and make run TRACES=FOLDER. Without a folder it runs these first, on real servers. Prints each trace that
# contradicts the model, with the line of the event that can't be explained, and exits with 1 if there is one. A trace with too many
# explanations is not decided, and named.
set -euo pipefail
traces=${1:+$(cd "$1" && pwd)}
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$traces" ]; then
  for server in scripts/postgres.sh scripts/redis.sh localstack/localstack.sh; do $server install >&2; done
  traces=$work/traces
  mkdir "$traces"
  IDEMSK_TRACE_DIR=$traces go test -count=1 -tags servers,rest -run 'TestRules|TestAgrees|TestSuite|TestAgreement|TestOnDynamoDBLocal|TestBalancesAreExact|TestPaymentThatKills|TestOnRealStores/paused|TestLanesCount|TestBookingsAreExact' \
    ./idem/memstore ./idem/redisstore ./idem/pgstore ./idem/dynamostore ./idem/storetest ./idem/e2e ./idem ./lambda/handler/internal/ledger >&2
  IDEMSK_TRACE_DIR=$traces go test -count=1 -tags synctests -run 'TestSimulation' ./test/simulation >&2
  for host in lambda process; do make --no-print-directory run HOST=$host TRACES="$traces" >&2; done
fi

# explain MODULE NAME…: checks the traces in files of these names, 4 MB at a time, because TLC's memory for a constant is 200 times its text.
explain() {
  local module=$1 part
  mkdir "$work/$module"
  find "$traces" -type f \( "${@:2}" \) | sort | tr '\n' '\0' | xargs -0 -r wc -c | awk -v to="$work/$module/files" '
    $2 != "total" { sum += $1; sub(/^ *[0-9]+ /, ""); print >(to "." int(sum / 4e6)) }'
  for part in "$work/$module"/files.*; do
    [ -e "$part" ] || return 0
    wc -l <"$part" >>"$counts"
    check "$module" "$part"
  done
}

# check MODULE LIST: checks the traces in a list of files, and adds those that contradict the model to the list of those.
check() {
  local module=$1 files=$2 work=$2.tlc
  mkdir "$work"
  cp docs/spec/*.tla "docs/spec/$module.cfg" "$work"

  # A file is a header and one event in a line, all flat JSON objects. They become records of TLA+.
  {
    echo '---- MODULE Traces ----'
    echo 'EXTENDS Integers'
    echo 'Traces == <<'
    tr '\n' '\0' <"$files" | xargs -0 cat | awk '
      /^{"(skew|p)"/ { sub(/}$/, ",\"events\":<<"); print (NR > 1 ? ">>},{" : "{") substr($0, 2); comma = ""; next }
      { print comma $0; comma = "," }
      END { print ">>}" }' | sed -E 's/\[/<</g; s/\]/>>/g; s/"([a-zA-Z]+)":/\1 |-> /g; s/\{/[/; s/\}/]/; s/\btrue\b/TRUE/g; s/\bfalse\b/FALSE/g'
    echo '>>'
    echo '===='
  } >"$work/Traces.tla"

  (cd "$work" && "$OLDPWD/scripts/tlc.sh" -continue -metadir "$work/meta" -config "$module.cfg" "$module") >"$work/log" 2>&1 || true
  if ! grep -q '^The depth of the complete state graph search is' "$work/log"; then
    tail -30 "$work/log" >&2
    exit 2
  fi
  # The state in which a trace has no explanation, or too many, follows "Error:"; the event is that of the last state.
  awk -v files="$files" -v undecided="$undecided" '
    function found() { if (trace) { if (invariant == "Decided") print file[trace] >undecided; else print file[trace] ":" event + 1 } trace = 0 }
    BEGIN { while ((getline name < files) > 0) file[++n] = name }
    /^Error: Invariant/ { found(); invariant = $3 }
    match($0, /^\/\\ t = /) { trace = substr($0, 8) + 0 }
    match($0, /^\/\\ i = /) { event = substr($0, 8) + 0 }
    END { found() }' "$work/log" >>"$contradicted"
}

counts=$work/counts contradicted=$work/contradicted undecided=$work/undecided
: >"$contradicted" >"$undecided" >"$counts"
explain trace -name '*.jsonl' ! -name 'lanes-*'
explain tracelanes -name 'lanes-*.jsonl'
total=$(awk '{ n += $1 } END { print n + 0 }' "$counts")
if [ "$total" = 0 ]; then
  echo "trace.sh: there is no trace in $traces" >&2
  exit 2
fi
sort "$contradicted"
sed 's/^/too many calls without an answer: /' "$undecided" >&2
echo "$total traces, $(wc -l <"$contradicted") contradict the model, $(wc -l <"$undecided") not decided" >&2
[ ! -s "$contradicted" ]

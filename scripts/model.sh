#!/usr/bin/env bash
# model.sh [CONFIGURATION…]: checks the TLA+ model of the rules (docs/spec) with TLC, all configurations unless some are named.
# The configurations v_*, b_deadlock, b_headfails, s_commitpast, s_releaserunning and s_keepclaims are drafts in which TLC must find an error.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then
  set -- docs/spec/[!t]*.cfg # those of traces are for trace.sh
fi
failed=0
for cfg in "$@"; do
  name=$(basename "$cfg" .cfg)
  case $name in a_* | v_a_*) module=atmostonce ;; b_*) module=batch ;; s_*) module=stream ;; *) module=idem ;; esac
  case $name in v_* | b_deadlock | b_headfails | s_commitpast | s_releaserunning | s_keepclaims) want=violated ;; *) want=holds ;; esac
  meta=$(mktemp -d)
  if (cd docs/spec && ../../scripts/tlc.sh -metadir "$meta" -config "$name.cfg" "$module") >"$meta/log" 2>&1
  then got=holds; else got=violated; fi
  if [ $got = violated ] && ! grep -qE 'is violated|Temporal properties were violated|Deadlock reached' "$meta/log"; then got=error; fi
  states=$(grep -oE '[0-9]+ distinct states found' "$meta/log" | tail -1 || true)
  echo "$name: $got, $states"
  if [ $got != $want ]; then
    echo "$name: should be: $want" >&2
    tail -20 "$meta/log" >&2
    failed=1
  fi
  rm -rf "$meta"
done
exit $failed

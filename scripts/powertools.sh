#!/usr/bin/env bash
# powertools.sh: installs Powertools for AWS Lambda in Python and TypeScript, and the benchmark's Kafka clients, as test/bench/peers
# pins them, into .cache/bench, once. The benchmark and the tests share them. Prints their folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
CACHE=$PWD/.cache/bench
readonly CACHE PEERS=test/bench/peers
readonly NODE=$CACHE/typescript LOCK=$PEERS/typescript/package-lock.json

fail() {
  printf 'powertools: %s\n' "$*" >&2
  exit 1
}

node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null && command -v npm >/dev/null ||
  fail "please install Node.js 20 or later, with npm"
mkdir -p "$CACHE"
scripts/venv.sh bench/python -r "$PEERS/python/requirements.txt"
if command -v flock >/dev/null; then # tests install concurrently
  exec 9>"$NODE.lock"
  flock 9
fi
if ! cmp -s "$LOCK" "$NODE/installed"; then
  rm -rf "$NODE"
  mkdir "$NODE"
  cp "$PEERS/typescript/package.json" "$LOCK" "$NODE"
  (cd "$NODE" && npm ci --silent --no-fund --no-audit >&2) || fail "npm could not install $PEERS/typescript/package.json"
  cp "$LOCK" "$NODE/installed"
fi
printf '%s\n' "$CACHE"

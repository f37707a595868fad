#!/usr/bin/env bash
# bench-peers.sh [ARGS…]: compares idemsk with other libraries; see docs/performance.md. Installs the peers from their
# registries into .cache/bench, once. Arguments go to test/bench/run (-help names them).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly CACHE=.cache/bench NODE=.cache/bench/typescript

fail() {
  printf 'bench-peers: %s\n' "$*" >&2
  exit 1
}

require() {
  local missing=()
  command -v go >/dev/null || missing+=('Go 1.26 or later')
  python3 -c 'import venv, ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    missing+=('Python 3.11 or later with venv (Debian: python3 python3-venv)')
  node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null || missing+=('Node.js 20 or later')
  command -v npm >/dev/null || missing+=(npm)
  [[ ${#missing[@]} -eq 0 ]] || fail "please install: $(printf '%s; ' "${missing[@]}")then try again"
}

# bundle NAME: bundled as Powertools' documentation recommends. The banner is for what is still required as CommonJS.
bundle() {
  cp "test/bench/peers/typescript/$1.mjs" "$NODE/source.mjs"
  "$NODE/node_modules/.bin/esbuild" "$NODE/source.mjs" --bundle --minify --platform=node --target=node20 --format=esm \
    --log-level=warning --outfile="$NODE/$1.mjs" \
    --banner:js="import{createRequire}from'module';const require=createRequire(import.meta.url);"
}

build() {
  mkdir -p "$CACHE/bin"
  # The function as scripts/build.sh builds it; the Go loop likewise.
  CGO_ENABLED=0 go build -tags lambda.norpc -trimpath -ldflags='-s -w' -o "$CACHE/bin/" ./test/bench/...
  CGO_ENABLED=0 go build -tags lambda.norpc -trimpath -ldflags='-s -w' -o "$CACHE/bin/idemsk-layer" ./lambda/layer
  CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$CACHE/bin/idemsk-consumer" ./cmd/idemsk-consumer
}

require
mkdir -p "$CACHE"
exec 9>"$CACHE/lock"
flock -n 9 || fail "another run is under way"
scripts/powertools.sh >/dev/null
bundle peer
bundle loop
build
RUNTIMES=$(scripts/runtimes.sh web)
"$CACHE/bin/run" -programs "$CACHE/bin" -cache "$CACHE" -runtimes "$RUNTIMES" "$@"

# What a call adds to a handler, the loops by hand on PostgreSQL and Redis, slow handlers and latencies are benchmarks of Go.
if [[ $# -eq 0 ]]; then
  (cd cmd && go test -tags rest -run '^$' -bench BenchmarkCall -benchtime 3000x ./idemsk-consumer)
  GOGC=400 go test -tags servers -run '^$' -bench BenchmarkWrites/0s -benchtime 40000x ./idem/pgstore
  GOGC=400 go test -tags servers -run '^$' -bench BenchmarkWrites/1ms -benchtime 4000x ./idem/pgstore
  go test -tags servers -run '^$' -bench BenchmarkStreams -benchtime 40000x ./internal/test/storebench
  (cd test/kafka && GOGC=400 go test -run '^$' -bench BenchmarkSlowHandlers -benchtime 1x .)
  (cd test/kafka && go test -run '^$' -bench BenchmarkLatency -benchtime 1x .)
fi

#!/usr/bin/env bash
# tool.sh NAME ARGS…: runs a pinned development tool, installed once into .cache/bin.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
case ${1:?which tool} in
  golangci-lint) module=github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 ;;
  govulncheck) module=golang.org/x/vuln/cmd/govulncheck@v1.8.0 ;;
  *) echo "tool: no version of $1 is pinned" >&2; exit 2 ;;
esac
bin="$root/.cache/bin"
stamp="$bin/.${1}-${module##*@}"
if [ ! -x "$bin/$1" ] || [ ! -e "$stamp" ]; then
  GOBIN=$bin go install "$module"
  touch "$stamp"
fi
exec "$bin/$1" "${@:2}"

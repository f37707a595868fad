#!/usr/bin/env bash
# tool.sh NAME ARGS…: runs a pinned development tool, installed once into .cache/bin.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
case ${1:?which tool} in
  golangci-lint) module=github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 ;;
  actionlint) module=github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 ;;
  crane) module=github.com/google/go-containerregistry/cmd/crane@v0.22.1 ;;
  cyclonedx-gomod) module=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0 ;;
  gorelease) module=golang.org/x/exp/cmd/gorelease@v0.0.0-20261113113407-e3970619a1a4 ;;
  helm) module=helm.sh/helm/v4/cmd/helm@v4.3.1 ;;
  nfpm) module=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2 ;;
  govulncheck) module=golang.org/x/vuln/cmd/govulncheck@v1.8.0 ;;
  *) echo "tool: no version of $1 is pinned" >&2; exit 2 ;;
esac
bin="$root/.cache/bin"
stamp="$bin/.${1}-${module##*@}"
if [ ! -x "$bin/$1" ] || [ ! -e "$stamp" ]; then
  GOBIN=$bin GOWORK=off go install -ldflags '-s -w' "$module"
  touch "$stamp"
fi
exec "$bin/$1" "${@:2}"

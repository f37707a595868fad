#!/usr/bin/env bash
# api.sh [VERSION]: compares the Go API of each module with the last release, and prints what changed and which version that takes. With
# VERSION it fails if the library's changes do not allow it. A nested module that needs an unreleased change of the library can't be compared.
set -euo pipefail
cd "$(dirname "$0")/.."
last=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null) || { echo "api: there is no release to compare with"; exit 0; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
git clone -q . "$scratch"
scripts/tool.sh gorelease -h >/dev/null 2>&1 || true # installs it
gorelease=$PWD/.cache/bin/gorelease
cd "$scratch"
export GOWORK=off
for module in . schema telemetry infra/cdk; do
  if [[ $module != . ]]; then # gorelease takes no module that is replaced
    go -C $module mod edit -dropreplace github.com/idemsk/idemsk
    go -C $module mod download github.com/idemsk/idemsk
    git -c user.name=api -c user.email=api@localhost commit -qam "$module without replace"
  fi
  echo "== $module"
  (cd $module && "$gorelease" -base="$last" ${1:+-version="$1"}) || [[ $module != . ]]
done

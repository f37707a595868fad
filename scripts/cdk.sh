#!/usr/bin/env bash
# cdk.sh ARGS…: runs the pinned CDK command line in infra/cdk, on the app as it is now. Installed once into .cache/cdk.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd -P)

major=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null) || major=0
if [[ $major -lt 20 ]] || ! command -v npm >/dev/null; then
  echo "cdk: install Node.js 20 or newer, with npm (https://nodejs.org)" >&2
  exit 1
fi

# What jsii and the CLI would otherwise print or ask for.
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=$major CDK_DISABLE_CLI_TELEMETRY=true

cache=$root/.cache/cdk
stamp=$cache/package-lock.json
if ! cmp -s "$root/infra/cdk/cli/package-lock.json" "$stamp"; then
  rm -rf "$cache"
  mkdir -p "$cache"
  cp "$root/infra/cdk/cli/package.json" "$cache"
  cp "$root/infra/cdk/cli/package-lock.json" "$cache/lock"
  (cd "$cache" && mv lock package-lock.json && npm ci --silent --ignore-scripts --no-fund --no-audit) || {
    rm -rf "$cache"
    echo "cdk: npm could not install the CDK command line" >&2
    exit 1
  }
fi

if [[ ${1:-} == bootstrap ]]; then # it needs no app, and would run the one whose folder it is in
  cd "$cache"
  exec node_modules/.bin/cdk --no-notices "$@"
fi
cd "$root/infra/cdk"
go build -o "$cache/app" .
exec "$cache/node_modules/.bin/cdk" --no-notices --app "$cache/app" "$@"

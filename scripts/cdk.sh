#!/usr/bin/env bash
# cdk.sh ARGS…: runs the pinned CDK command line in infra/cdk, on the app as it is now. Installed once into .cache/cdk. The app builds
# the programs that the stack needs. IDEMSK_APP names another app, a folder in infra/cdk.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd -P)

fail() {
  printf 'cdk: %s\n' "$@" >&2
  exit 1
}

missing=()
major=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null) || major=0
[[ $major -ge 20 ]] && command -v npm >/dev/null || missing+=('install Node.js 20 or newer, with npm (https://nodejs.org)')
command -v go >/dev/null || missing+=('install Go 1.26 or newer (https://go.dev/dl)')
[[ ${#missing[@]} -eq 0 ]] || fail "${missing[@]}"

# Disable notices and telemetry of jsii and the CLI.
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=$major CDK_DISABLE_CLI_TELEMETRY=true

cache=$root/.cache/cdk
stamp=$cache/installed # the lock file, copied last: without it an installation has been interrupted
if command -v flock >/dev/null; then # tests run this script concurrently
  mkdir -p "$root/.cache"
  exec 9>"$root/.cache/cdk.lock"
  flock 9
fi
if ! cmp -s "$root/infra/cdk/cli/package-lock.json" "$stamp"; then
  echo "cdk: installing the CDK's command line" >&2
  rm -rf "$cache"
  mkdir -p "$cache"
  cp "$root"/infra/cdk/cli/package*.json "$cache"
  (cd "$cache" && npm ci --loglevel=error --ignore-scripts --no-fund --no-audit) >&2 ||
    fail "npm could not install the CDK command line: its message is above"
  cp "$cache/package-lock.json" "$stamp"
fi
exec 9>&-

if [[ ${1:-} == bootstrap ]]; then # bootstrap needs no app, but would run the app of the current folder
  cd "$cache"
  exec node_modules/.bin/cdk --no-notices "$@"
fi
"$root/scripts/build.sh" cdk ${IDEMSK_APP:+"$IDEMSK_APP"}
cd "$root/infra/cdk"
exec "$cache/node_modules/.bin/cdk" --no-notices --app "$cache/app${IDEMSK_APP:+-$IDEMSK_APP}" "$@"

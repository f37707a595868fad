#!/usr/bin/env bash
# templates.sh cfn-lint|checkov ARGS…: runs a pinned checker of CloudFormation templates, installed once into .cache/templates. Needs
# Python with venv.
set -euo pipefail
tools=$(cd "$(dirname "$0")/.." && pwd -P)/.cache/templates
pinned="cfn-lint==1.58.0 checkov==3.3.30"
exec 9>"$tools.lock"
flock 9
if [[ $(cat "$tools/pinned" 2>/dev/null) != "$pinned" ]]; then
  python3 -m venv --clear "$tools"
  # shellcheck disable=SC2086 # two requirements
  "$tools/bin/pip" install --quiet --disable-pip-version-check $pinned >&2
  echo "$pinned" >"$tools/pinned"
fi
exec 9>&-
exec "$tools/bin/${1:?which checker}" "${@:2}"

#!/usr/bin/env bash
# templates.sh cfn-lint|checkov ARGS…: runs a pinned checker of CloudFormation templates, in the caller's folder.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd -P)
"$root/scripts/venv.sh" templates cfn-lint==1.58.0 checkov==3.3.30
exec "$root/.cache/templates/bin/${1:?which checker}" "${@:2}"

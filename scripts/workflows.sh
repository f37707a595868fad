#!/usr/bin/env bash
# workflows.sh: checks .github: actionlint and zizmor the workflows, check-jsonschema the rest. Needs Python with venv.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=.cache/workflows
pinned="zizmor==1.32.0 check-jsonschema==0.39.0"
if [[ $(cat $tools/pinned 2>/dev/null) != "$pinned" ]]; then
  python3 -m venv --clear $tools
  $tools/bin/pip install --quiet $pinned
  echo "$pinned" >$tools/pinned
fi
scripts/tool.sh actionlint
$tools/bin/zizmor --offline --quiet --pedantic .github
$tools/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
$tools/bin/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/{bug,proposal}.yml
$tools/bin/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml

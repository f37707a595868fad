#!/usr/bin/env bash
# workflows.sh: checks .github: actionlint and zizmor the workflows, check-jsonschema the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=.cache/workflows
scripts/venv.sh workflows zizmor==1.32.0 check-jsonschema==0.39.0
scripts/tool.sh actionlint
$tools/bin/zizmor --offline --quiet --pedantic .github
$tools/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
$tools/bin/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/{bug,proposal}.yml
$tools/bin/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml

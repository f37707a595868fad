#!/usr/bin/env bash
# site.sh [FOLDER]: builds the site of the documents into FOLDER (dist/site). A link or an anchor that leads nowhere is an
# error. MkDocs is installed by venv.sh. SITE_VERSION is the version that links to sources have, SITE_URL where the site is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/venv.sh site --no-deps -r scripts/site/requirements.txt
SITE_VERSION=${SITE_VERSION:-$(git describe --tags --exact-match 2>/dev/null || git rev-parse HEAD)}
export SITE_VERSION NO_MKDOCS_2_WARNING=1 PYTHONDONTWRITEBYTECODE=1
folder=$(realpath -m "${1:-dist/site}")
# With --quiet, mkdocs would not count warnings. Its lines of information are left out.
.cache/site/bin/mkdocs build --strict --clean --config-file scripts/site/mkdocs.yml --site-dir "$folder" 2>&1 |
  { grep -v '^INFO' >&2 || true; }
echo "$folder/index.html"

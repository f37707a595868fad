#!/usr/bin/env bash
# site.sh [FOLDER]: builds the site of the documents into FOLDER (dist/site). A link or an anchor that leads nowhere is an
# error. Needs Python with venv; installs MkDocs into .cache, once. SITE_VERSION is the version that links to sources have.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly TOOLS=.cache/site WANTED=scripts/site/requirements.txt

mkdir -p .cache
exec 9>"$TOOLS.lock"
flock 9
if ! cmp -s "$WANTED" "$TOOLS/requirements.txt"; then
  python3 -c 'import venv, ensurepip, sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    { echo "site: please install Python 3.10 or later with venv (Debian: python3 python3-venv)" >&2; exit 1; }
  python3 -m venv --clear "$TOOLS"
  "$TOOLS/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$WANTED"
  cp "$WANTED" "$TOOLS/requirements.txt"
fi
SITE_VERSION=${SITE_VERSION:-$(git describe --tags --exact-match 2>/dev/null || git rev-parse HEAD)}
export SITE_VERSION NO_MKDOCS_2_WARNING=1 PYTHONDONTWRITEBYTECODE=1
folder=$(realpath -m "${1:-dist/site}")
# With --quiet, mkdocs would not count warnings. Its lines of information are left out.
"$TOOLS/bin/mkdocs" build --strict --clean --config-file scripts/site/mkdocs.yml --site-dir "$folder" 2>&1 |
  { grep -v '^INFO' >&2 || true; }
echo "$folder/index.html"

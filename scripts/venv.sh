#!/usr/bin/env bash
# venv.sh NAME ARGS…: what pip installs for these arguments, pinned packages or -r FILE, in .cache/NAME, a virtual environment of Python.
# It is installed again only for other arguments or another FILE.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=.cache/$1
shift
pinned=$*
for file in "$@"; do
  [[ ! -f $file ]] || pinned+=$'\n'$(<"$file")
done
mkdir -p .cache
if command -v flock >/dev/null; then # tests install concurrently
  exec 9>"$folder.lock"
  flock 9
fi
[[ $(cat "$folder/pinned" 2>/dev/null) != "$pinned" ]] || exit 0
python3 -c 'import venv, ensurepip, sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || {
  echo "venv: please install Python 3.10 or later with venv (Debian: python3 python3-venv)" >&2
  exit 1
}
python3 -m venv --clear "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check "$@" >&2
printf '%s\n' "$pinned" >"$folder/pinned"

#!/usr/bin/env bash
# A PostgreSQL server for the tests, from Debian's packages: no Docker, no root. internal/test/pgserver runs it.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: scripts/postgres.sh COMMAND

  install    sees that PostgreSQL 15 or later is there: an installed one is used, otherwise one goes into .cache/servers/postgres
  download   puts one into .cache/servers/postgres, whatever is installed
USAGE
}

readonly OLDEST=15
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
readonly ROOT DIR=$ROOT/.cache/servers/postgres

fail() {
  printf 'postgres: %s\n' "$*" >&2
  printf 'postgres: install PostgreSQL %s or later yourself (Debian: apt-get install postgresql-%s)\n' "$OLDEST" "$OLDEST" >&2
  exit 1
}

major() { # PROGRAM ; its major version, 0 if it does not run
  local text
  text=$(LD_LIBRARY_PATH=$(libraries) "$1" --version 2>/dev/null) && [[ $text =~ \)\ ([0-9]+) ]] && echo "${BASH_REMATCH[1]}" || echo 0
}

libraries() { printf '%s:' "$DIR"/usr/lib/*-linux-gnu; }

installed() {
  local program bin
  for program in "$DIR"/usr/lib/postgresql/*/bin/postgres /usr/lib/postgresql/*/bin/postgres "$(command -v postgres || true)"; do
    program=$(readlink -f "$program" 2>/dev/null) || continue # the other programs are beside it, not beside a link to it
    bin=${program%/*}
    if [[ $(major "$program") -ge $OLDEST && -x $bin/initdb && -x $bin/pg_ctl && -x $bin/pg_basebackup ]]; then
      return 0
    fi
  done
  return 1
}

# newest prints the newest version in apt.
newest() {
  apt-cache pkgnames postgresql- | sed -n 's/^postgresql-\([0-9][0-9]*\)$/\1/p' | sort -n | tail -n 1
}

# missing_libraries VERSION prints the packages of libraries that the server needs and that are not installed.
missing_libraries() {
  local package
  apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
    "postgresql-$1" "postgresql-client-$1" | sed -n 's/^\(lib[a-z0-9.+-]*\)$/\1/p' | sort -u |
    while read -r package; do
      if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]] &&
        apt-cache policy "$package" | grep -q 'Candidate: [^(]'; then
        echo "$package"
      fi
    done
}

download() {
  local version work packages
  if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    fail "this system has no Debian packages"
  fi
  version=$(newest)
  [[ -n $version && $version -ge $OLDEST ]] ||
    fail "the newest PostgreSQL in apt is ${version:-none}, and $OLDEST is needed: apt-get update, or add the repository of postgresql.org"
  mkdir -p "${DIR%/*}"
  exec 9>"$DIR.lock"
  flock 9
  printf 'postgres: downloading PostgreSQL %s, once\n' "$version" >&2
  work=$(mktemp -d "$DIR.XXXXXX")
  # shellcheck disable=SC2064 # expanded now on purpose
  trap "rm -rf '$work'" EXIT
  mapfile -t packages < <(missing_libraries "$version")
  mkdir "$work/debs"
  (cd "$work/debs" && apt-get -q download "postgresql-$version" "postgresql-client-$version" "${packages[@]}" >&2) ||
    fail "apt-get could not download it: its messages are above (apt-get update may help)"
  local deb
  for deb in "$work"/debs/*.deb; do
    dpkg -x "$deb" "$work/root"
  done
  chmod -R go+rX "$work/root" # PostgreSQL does not run as root, and another user must get at it
  rm -rf "$DIR"
  mv "$work/root" "$DIR"
  [[ $(major "$DIR/usr/lib/postgresql/$version/bin/postgres") == "$version" ]] ||
    fail "PostgreSQL $version was downloaded but does not run: $(LD_LIBRARY_PATH=$(libraries) ldd "$DIR/usr/lib/postgresql/$version/bin/postgres" | grep 'not found' | tr -s '\n\t ' ' ')"
}

case ${1:-} in
  install) installed || download ;;
  download) download ;;
  -h | --help | help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac

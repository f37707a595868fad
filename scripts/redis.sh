#!/usr/bin/env bash
# Redis and Valkey servers for the tests, from Debian's packages: no Docker, no root. internal/test/redisserver runs them.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: scripts/redis.sh COMMAND

  install    sees that there are Redis 7 or later, Valkey, and a Redis 6 that the tests want to be refused: what is not installed
             goes into .cache/servers
  download   puts all three into .cache/servers, whatever is installed
USAGE
}

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
readonly ROOT SERVERS=$ROOT/.cache/servers
readonly KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

fail() {
  printf 'redis: %s\n' "$*" >&2
  printf 'redis: install redis-server 7 or later and valkey-server yourself (Debian 13: apt-get install redis-server valkey-server), and a\n' >&2
  printf 'redis: Redis 6 as redis-server-6 into a folder of the PATH (Debian 11 has one in its package redis-server)\n' >&2
  exit 1
}

libraries() { printf '%s:' "$1"/usr/lib/*-linux-gnu "$1"/lib/*-linux-gnu; } # ROOT

major() { # ROOT PROGRAM ; its major version, 0 if it does not run
  local text
  text=$(LD_LIBRARY_PATH=$(libraries "$1") "$2" --version 2>/dev/null) && [[ $text =~ v=([0-9]+)\. ]] && echo "${BASH_REMATCH[1]}" || echo 0
}

there() { # NAME PROGRAM OLDEST NEWEST ; whether one of these versions is there
  local v
  v=$(major "$SERVERS/$1" "$SERVERS/$1/usr/bin/${2%-6}")
  ((v >= $3 && v <= $4)) && return 0
  v=$(major / "$(command -v "$2" || echo none)")
  ((v >= $3 && v <= $4))
}

# release prints the code name of this Debian and the mirror of its packages.
release() {
  # shellcheck disable=SC2016 # apt's own variables
  apt-get indextargets --format '$(CREATED_BY) $(ORIGIN) $(COMPONENT) $(CODENAME) $(REPO_URI)' |
    awk '$1 == "Packages" && $2 == "Debian" && $3 == "main" && $4 !~ /-/ { print $4, $5; exit }'
}

# missing_libraries PACKAGE… prints the packages of libraries that these need and that are not installed. libelogind0 stands in for
# libsystemd0, which every Debian has.
missing_libraries() {
  local package
  apt-cache "${APT[@]}" depends --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$@" |
    sed -n 's/^ .*Depends: \(\(lib\|lua-\)[a-z0-9.+-]*\)$/\1/p' | sort -u |
    while read -r package; do
      if [[ $package != libelogind0 && $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
        echo "$package"
      fi
    done
}

APT=()

# look_in WORK MIRROR SUITE… makes apt look into these alone, with state of its own.
look_in() {
  local work=$1 mirror=$2 suite
  shift 2
  mkdir -p "$work"/apt/{lists,cache/archives}/partial
  for suite; do
    printf 'deb %s %s %s main\n' "$([[ -f $KEYRING ]] && echo "[signed-by=$KEYRING]")" "$mirror" "$suite"
  done >"$work/apt/sources.list"
  APT=(-o "Dir::Etc::SourceList=$work/apt/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$work/apt/lists"
    -o "Dir::Cache=$work/apt/cache" -o Acquire::Languages=none)
  apt-get -q "${APT[@]}" update >&2 || fail "apt-get could not read $* of $mirror: its messages are above"
}

# download NAME PROGRAM OLDEST NEWEST SUITES PACKAGE… puts a server into $SERVERS/NAME. SUITES are Debian's, in one word; if it is
# empty the server comes from where apt looks anyhow.
download() {
  local name=$1 program=$2 oldest=$3 newest=$4 suites=$5 work target=$SERVERS/$1 mirror deb v
  local -a packages
  shift 5
  if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    fail "this system has no Debian packages"
  fi
  mkdir -p "$SERVERS"
  exec 9>"$target.lock"
  flock 9
  printf 'redis: downloading %s, once\n' "$name" >&2
  work=$(mktemp -d "$target.XXXXXX")
  # shellcheck disable=SC2064 # expanded now on purpose
  trap "rm -rf '$work'" EXIT
  APT=()
  if [[ -n $suites ]]; then
    read -r _ mirror < <(release) || fail "apt has no Debian among its sources"
    # shellcheck disable=SC2086 # several words
    look_in "$work" "$mirror" $suites
  fi
  mapfile -t packages < <(missing_libraries "$@")
  packages+=("$@")
  mkdir "$work/debs"
  (cd "$work/debs" && apt-get -q "${APT[@]}" download "${packages[@]}" >&2) ||
    fail "apt-get could not download $name: its messages are above (apt-get update may help)"
  for deb in "$work"/debs/*.deb; do
    dpkg -x "$deb" "$work/root"
  done
  v=$(major "$work/root" "$work/root/usr/bin/$program")
  ((v >= oldest && v <= newest)) ||
    fail "$name was downloaded, but its version $v is not from $oldest to $newest (0: it does not run):" \
      "$(LD_LIBRARY_PATH=$(libraries "$work/root") ldd "$work/root/usr/bin/$program" | grep 'not found' | tr -s '\n\t ' ' ')"
  rm -rf "$target"
  mv "$work/root" "$target"
}

redis() { download redis redis-server 7 99 '' redis-server redis-tools; }

# valkey is in Debian since 13; for 12 it is in the backports.
valkey() {
  local codename suites=
  if [[ $(apt-cache policy valkey-server 2>/dev/null) != *'Candidate: '[0-9]* ]]; then
    read -r codename _ < <(release) || fail "apt has no Debian among its sources"
    suites="$codename $codename-backports"
  fi
  download valkey valkey-server 7 99 "$suites" valkey-server valkey-tools
}

old() { download redis-6 redis-server 6 6 bullseye redis-server redis-tools; }

case ${1:-} in
  install)
    there redis redis-server 7 99 || (redis)
    there valkey valkey-server 7 99 || (valkey)
    there redis-6 redis-server-6 6 6 || (old)
    ;;
  download) (redis) && (valkey) && (old) ;;
  -h | --help | help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac

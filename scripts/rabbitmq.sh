#!/usr/bin/env bash
# A real RabbitMQ as a plain process, from Debian's packages: no Docker, no root.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: scripts/rabbitmq.sh COMMAND

  install    installs into .cache/servers/rabbitmq; does nothing if that is done
  run PORT   is a broker on 127.0.0.1, in the foreground, until SIGTERM or SIGINT; its data go with it. PORT 0 takes a free one.
             Prints `listening 127.0.0.1:PORT` when it takes connections.
USAGE
}

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=scripts/ports.sh
source "$ROOT/scripts/ports.sh"
readonly ROOT TARGET=$ROOT/.cache/servers/rabbitmq
readonly ERLANG=$TARGET/usr/lib/erlang
readonly START_SECONDS=240 # of a busy machine

fail() {
  printf 'rabbitmq: %s\n' "$*" >&2
  exit 1
}

install() {
  [[ ! -f $TARGET/stamp ]] || return 0
  if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    fail "this system has no Debian packages"
  fi
  local work deb
  local -a packages
  mkdir -p "$(dirname "$TARGET")"
  exec 9>"$TARGET.lock"
  flock 9
  [[ ! -f $TARGET/stamp ]] || return 0
  printf 'rabbitmq: downloading RabbitMQ and Erlang, once\n' >&2
  work=$(mktemp -d "$TARGET.XXXXXX")
  # shellcheck disable=SC2064 # expanded now on purpose
  trap "rm -rf '$work'" EXIT
  # Erlang is many packages. Its C libraries are those that every Debian has.
  mapfile -t packages < <(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
    rabbitmq-server 2>/dev/null | grep -E '^(erlang-[a-z0-9-]+|rabbitmq-server)$' | grep -v hipe)
  [[ ${#packages[@]} -gt 0 ]] || fail "apt knows no rabbitmq-server (apt-get update may help)"
  mkdir "$work/debs"
  (cd "$work/debs" && apt-get -q download "${packages[@]}" >&2) ||
    fail "apt-get could not download RabbitMQ: its messages are above (apt-get update may help)"
  for deb in "$work"/debs/*.deb; do
    dpkg -x "$deb" "$work/root"
  done
  rm -rf "$TARGET"
  mv "$work/root" "$TARGET"
  sed -i "s|ROOTDIR=/usr/lib/erlang|ROOTDIR=$ERLANG|" "$ERLANG/bin/erl" # the packages expect to be below /
  touch "$TARGET/stamp"
  rm -rf "$work"
  trap - EXIT
  flock -u 9
}

dir='' processes=()
stop() {
  local p
  for p in "${processes[@]}"; do kill -KILL "$p" 2>/dev/null || true; done # nothing of it is kept
  wait 2>/dev/null || true
  rm -rf "$dir"
}

run() { # PORT
  [[ ${1:-} =~ ^[0-9]{1,5}$ && $1 -le 65535 ]] || fail "run: give a port, or 0 for a free one"
  install
  local port=$1 free server end=$((SECONDS + START_SECONDS))
  local -a names
  read -r free RABBITMQ_DIST_PORT ERL_EPMD_PORT < <(free_ports 3)
  [[ $port != 0 ]] || port=$free
  trap stop EXIT
  trap 'exit 0' TERM INT
  dir=$(mktemp -d "${TMPDIR:-/tmp}/rabbitmq.XXXXXX")
  export RABBITMQ_DIST_PORT ERL_EPMD_PORT ERL_EPMD_ADDRESS=127.0.0.1 ERL_CRASH_DUMP_BYTES=0 HOME=$dir
  export RABBITMQ_MNESIA_BASE=$dir/data RABBITMQ_LOGS=- RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_CONFIG_FILE=$dir/none
  export RABBITMQ_ENABLED_PLUGINS_FILE=$dir/plugins RABBITMQ_GENERATED_CONFIG_DIR=$dir/generated
  export RABBITMQ_NODENAME=test@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT=$port
  export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}" RUNNING_UNDER_SYSTEMD=true # no shell in between
  names=("$ERLANG"/erts-*/bin/epmd "$TARGET"/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server)
  "${names[0]}" >"$dir/epmd.log" 2>&1 </dev/null &
  processes+=($!)
  PATH=$ERLANG/bin:$PATH "${names[1]}" >"$dir/log" 2>&1 </dev/null &
  server=$!
  processes+=("$server")
  until grep -qs 'Server startup complete' "$dir/log"; do # a connection could reach what held the port before
    if ! kill -0 "$server" 2>/dev/null; then
      tail -n 20 "$dir/log" >&2
      fail "the broker did not start: its last lines are above (is port $port free?)"
    fi
    [[ $SECONDS -lt $end ]] || fail "the broker did not take connections within $START_SECONDS s"
    sleep 0.1
  done
  printf 'listening 127.0.0.1:%s\n' "$port"
  wait "$server" || true
  tail -n 20 "$dir/log" >&2
  fail "the broker ended by itself: its last lines are above"
}

case ${1:-} in
  install) install ;;
  run) run "${2:-}" ;;
  -h | --help | help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac

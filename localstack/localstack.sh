#!/usr/bin/env bash
# LocalStack (community) and DynamoDB Local as plain processes: no Docker, no account. See README.md.
set -euo pipefail
unset PYTHONHOME PYTHONPATH # of the caller's Python, not of the one that is chosen here

usage() {
  cat <<'USAGE'
usage: localstack/localstack.sh COMMAND

  install              installs into .cache/localstack; does nothing if that is done
  up                   starts LocalStack if it is not up, installs it first if need be; the last line of the output is
                       `started` or `already-up`
  down                 ends LocalStack and all it started; nothing to end is a success
  status               prints what is up; exit status 0 if up, 3 if down
  env                  prints the `export` lines that point AWS SDKs at LocalStack
  dynamodb-local PORT  becomes a DynamoDB Local without LocalStack, in memory, in the foreground, until SIGTERM;
                       PORT 0 takes a free one; prints `listening http://127.0.0.1:PORT` when it takes requests

environment: LOCALSTACK_PORT (default 4566), LOCALSTACK_PYTHON (default: the best found), LOCALSTACK_DEBUG=1
USAGE
}

# --- what is installed ---

readonly UV_VERSION=0.13.8
readonly DYNAMODB_LOCAL_VERSION=3.1.0
readonly ECJ_VERSION=3.37.0 # compiles one Java class, so that a JRE is enough
readonly MAVEN_COPY=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies
# LocalStack from 4.10 on works on Python 3.13 only, although its metadata allows others. Its dependencies are taken as of its
# own release: newer ones break it.
pin_localstack() { # PYTHON_VERSION
  case $1 in
    3.13.*) LOCALSTACK_VERSION=2026.3.0 LOCALSTACK_AS_OF=2026-03-27T00:00:00Z ;;
    3.11.* | 3.12.*) LOCALSTACK_VERSION=4.9.2 LOCALSTACK_AS_OF=2025-10-11T00:00:00Z ;;
    *) return 1 ;;
  esac
}

# --- where things are ---

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
CACHE=$(dirname "$HERE")/.cache/localstack
readonly HERE CACHE
readonly INSTALLED=$CACHE/installed # emptied by each installation
readonly STAMP=$INSTALLED/stamp     # written last: without it an installation has been interrupted
readonly VENV=$INSTALLED/venv
readonly ROOT=$INSTALLED/root # LocalStack's file system root
readonly LIBRARIES=$ROOT/var/lib/localstack/lib
readonly DYNAMODB=$LIBRARIES/dynamodb-local/2
readonly RUN=$CACHE/run # of the running instance; emptied by each start
readonly LOG=$RUN/log
readonly INSTANCE=$RUN/instance # "PID PORT"
# Set in the environment of LocalStack and of all it starts: what carries it is ours, and ends with it.
readonly MARK=LOCALSTACK_HARNESS=$CACHE

readonly START_SECONDS=120 STOP_SECONDS=10 LOCK_SECONDS=900

say() { printf 'localstack: %s\n' "$*" >&2; }
fail() {
  say "$@"
  exit 1
}

# --- tools ---

java_property() { java -XshowSettings:properties -version 2>&1 | sed -n "s/^ *$1 = //p"; }

has_java() {
  local version
  command -v java >/dev/null && version=$(java_property java.specification.version) && [[ ${version%%.*} -ge 17 ]]
}

require() { # TOOL... ; names all that is missing at once
  local tool missing=()
  [[ $(uname -sm) == 'Linux x86_64' ]] ||
    fail "runs on Linux x86_64 only (DynamoDB Local's native library), not on $(uname -sm). With Docker: compose.yaml"
  for tool in "$@"; do
    case $tool in
      java) has_java || missing+=('Java 17 or later (Debian: openjdk-17-jre-headless)') ;;
      mvn) command -v mvn >/dev/null || missing+=('Maven 3.6 or later (Debian: maven)') ;;
      python) select_python || missing+=("$PYTHON_COMPLAINT") ;;
      curl) command -v curl >/dev/null || missing+=('curl (Debian: curl)') ;;
      *) command -v "$tool" >/dev/null || missing+=("$tool (Debian: util-linux)") ;;
    esac
  done
  [[ ${#missing[@]} -eq 0 ]] || fail "please install: $(printf '%s; ' "${missing[@]}")then try again"
}

# Also checks the tools that an installation needs, unless it exists, so that all missing tools are named together.
require_with_installation() {
  if [[ -f $STAMP ]]; then require python java "$@"; else require python java mvn "$@"; fi
}

# Sets PYTHON, PYTHON_VERSION and LOCALSTACK_VERSION, or PYTHON_COMPLAINT. 3.13 comes first because it gets the newest
# LocalStack. Each candidate is run: a version manager's shim may exist for a version that it cannot start.
select_python() {
  local candidate candidates=()
  PYTHON_COMPLAINT='Python 3.13, 3.12 or 3.11 with venv (Debian: python3 python3-venv)'
  if [[ -n ${LOCALSTACK_PYTHON:-} ]]; then
    candidates=("$LOCALSTACK_PYTHON")
    PYTHON_COMPLAINT+=", which LOCALSTACK_PYTHON=$LOCALSTACK_PYTHON is not"
  else
    candidates=(python3.13 "${HOME:-}"/.pyenv/versions/3.13.*/bin/python python3 python3.12 python3.11
      "${HOME:-}"/.pyenv/versions/3.1[21].*/bin/python)
  fi
  for candidate in "${candidates[@]}"; do
    read -r PYTHON_VERSION PYTHON < <("$candidate" -c '
import ensurepip, platform, sys, venv
print(platform.python_version(), sys.executable)' 2>/dev/null) || continue
    pin_localstack "$PYTHON_VERSION" && return
  done
  return 1
}

# --- installation ---

sources_hash() {
  (
    cd "$HERE"
    find lambda-executor dynamodb-local -type f \( -name '*.py' -o -name '*.toml' -o -name '*.java' \) -print0 |
      LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1
  )
}

# What an installation would be made of now; needs select_python. Any difference to the stamp is a new installation.
wanted() {
  echo "localstack $LOCALSTACK_VERSION as of $LOCALSTACK_AS_OF, uv $UV_VERSION"
  echo "python $PYTHON_VERSION $PYTHON"
  echo "dynamodb-local $DYNAMODB_LOCAL_VERSION, ecj $ECJ_VERSION"
  echo "sources $(sources_hash)"
}

is_installed() { [[ -f $STAMP && $(cat "$STAMP") == "$(wanted)" ]]; }

install() { # the caller holds the lock and has called require_with_installation
  if is_installed; then
    return
  fi
  require mvn
  [[ -z $(our_pids) ]] || fail "the installation has to be renewed, and LocalStack is up: first $0 down"
  say "installing LocalStack $LOCALSTACK_VERSION (Python $PYTHON_VERSION) and DynamoDB Local $DYNAMODB_LOCAL_VERSION:" \
    "once, half a minute to a minute"
  rm -rf "$INSTALLED"
  mkdir -p "$INSTALLED/home" "$DYNAMODB"
  install_localstack
  install_dynamodb_local
  wanted >"$STAMP.part"
  mv "$STAMP.part" "$STAMP"
  say "installed into $INSTALLED"
}

install_localstack() {
  local build=$INSTALLED/build
  "$PYTHON" -m venv "$VENV"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
  pip_install "localstack-core[runtime]==$LOCALSTACK_VERSION"
  mkdir "$build"
  cp -R "$HERE/lambda-executor" "$build" # a build leaves files beside the sources
  pip_install --no-deps "$build/lambda-executor"
  rm -rf "$build"
  # LocalStack would only warn of a missing executor and turn to Docker.
  "${CLEAN_ENVIRONMENT[@]}" "$VENV/bin/python" -c '
from localstack.services.lambda_.invocation.runtime_executor import EXECUTOR_PLUGIN_MANAGER
EXECUTOR_PLUGIN_MANAGER.load("process").load()'
}

pip_install() {
  "$VENV/bin/python" -m uv pip install --quiet --python "$VENV/bin/python" --exclude-newer "$LOCALSTACK_AS_OF" "$@"
}

install_dynamodb_local() {
  local build=$INSTALLED/build
  mkdir "$build"
  maven_copy "software.amazon.dynamodb:DynamoDBLocal:$DYNAMODB_LOCAL_VERSION" "$DYNAMODB/DynamoDBLocal_lib"
  maven_copy "org.eclipse.jdt:ecj:$ECJ_VERSION" "$build"
  java -jar "$build/ecj-$ECJ_VERSION.jar" -source 17 -target 17 -proc:none -d "$build/classes" \
    -cp "$(printf '%s:' "$DYNAMODB"/DynamoDBLocal_lib/*.jar)" "$HERE/dynamodb-local/LoopbackServerRunner.java"
  "$VENV/bin/python" "$HERE/dynamodb-local/launcher_jar.py" "$DYNAMODB/DynamoDBLocal.jar" "$build/classes"
  # LocalStack passes a patch of its own as -javaagent; the launcher stands in for it and patches nothing.
  ln -s DynamoDBLocal.jar "$DYNAMODB/ddb-local-loader-0.1.jar"
  rm -rf "$build"
}

maven_copy() { # GROUP:ARTIFACT:VERSION DIRECTORY ; the artifact and all it needs at run time
  local group artifact version output pom=$INSTALLED/build/pom.xml
  IFS=: read -r group artifact version <<<"$1"
  cat >"$pom" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>copy</artifactId><version>1</version><packaging>pom</packaging><dependencies>
<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version></dependency>
</dependencies></project>
POM
  output=$(mvn --quiet --batch-mode -f "$pom" "$MAVEN_COPY" \
    -DincludeScope=runtime -DoutputDirectory="$2" </dev/null 2>&1) || {
    printf '%s\n' "$output" >&2
    fail "Maven could not fetch $1: its messages are above"
  }
}

# --- the running instance ---

# Nothing of the caller's environment but PATH: a DEBUG, SERVICES, AWS_PROFILE or proxy changes what LocalStack
# does. HOME is the installation's, so that ~/.aws is not read and LocalStack's plugin cache goes with the installation.
readonly CLEAN_ENVIRONMENT=(env -i PATH="$PATH" HOME="$INSTALLED/home" LANG=C.UTF-8 PYTHONNOUSERSITE=1)

our_pids() { # no zombies: their environment is empty
  grep -lszxF "$MARK" /proc/[0-9]*/environ | cut -d/ -f3 || true
}

main_pid() {
  local pid _port
  [[ -f $INSTANCE ]] && read -r pid _port <"$INSTANCE" && our_pids | grep -x "$pid"
}

main_port() { cut -d' ' -f2 "$INSTANCE"; }

choose_port() {
  if [[ -n ${LOCALSTACK_PORT:-} ]]; then
    PORT=$LOCALSTACK_PORT
  elif main_pid >/dev/null; then
    PORT=$(main_port)
  else
    PORT=4566
  fi
  [[ $PORT =~ ^[0-9]{1,5}$ && $PORT -ge 1 && $PORT -le 65535 ]] ||
    fail "LOCALSTACK_PORT=$PORT is not a port: give a number from 1 to 65535"
}

is_healthy() { curl --silent --fail --noproxy '*' --max-time 2 "http://127.0.0.1:$PORT/_localstack/health" >/dev/null; }

require_free_port() {
  local holder
  holder=$("$VENV/bin/python" "$HERE/port_holder.py" "$PORT")
  [[ -z $holder ]] ||
    fail "port $PORT is taken by $holder, which is not this checkout's LocalStack:" \
      "end it, or choose another port with LOCALSTACK_PORT"
}

launch() {
  local settings=(
    "$MARK"
    FILESYSTEM_ROOT="$ROOT" OVERRIDE_IN_DOCKER=0 # 0: a /.dockerenv on this machine would move its folders to /var/lib
    TMPDIR="$RUN/tmp"                            # the functions' code is unpacked there
    JAVA_TOOL_OPTIONS="-Djava.io.tmpdir=$RUN/tmp" # DynamoDB Local unpacks a library there, and leaves it
    GATEWAY_SERVER=loopback GATEWAY_LISTEN="127.0.0.1:$PORT" LOCALSTACK_HOST="127.0.0.1:$PORT" DNS_ADDRESS=0
    AWS_DEFAULT_REGION=us-east-1
    SQS_ENDPOINT_STRATEGY=path      # queue URLs on the endpoint itself, not on a host name that needs DNS
    PROVIDER_OVERRIDE_DYNAMODB=v2   # DynamoDB Local's own streams; the default needs another server, kinesis-mock
    DYNAMODB_IN_MEMORY=1
    DYNAMODB_REMOVE_EXPIRED_ITEMS=1 # TTL; DELETE /_aws/dynamodb/expired does it at once
    LAMBDA_RUNTIME_EXECUTOR=process # lambda-executor/
    DISABLE_EVENTS=1 SKIP_SSL_CERT_DOWNLOAD=1 # nothing goes out to the internet
    DEBUG="${LOCALSTACK_DEBUG:-0}"
  )
  rm -rf "$RUN"
  mkdir -p "$RUN/tmp"
  # LocalStack looks for a Java 21 of its own; any from 17 on does.
  mkdir -p "$LIBRARIES/java"
  ln -sfn "$(java_property java.home)" "$LIBRARIES/java/21"
  cd "$RUN"
  # 9>&-: the lock is not to be held for as long as LocalStack runs
  "${CLEAN_ENVIRONMENT[@]}" "${settings[@]}" setsid "$VENV/bin/python" -m localstack.runtime.main \
    >"$LOG" 2>&1 </dev/null 9>&- &
  echo "$! $PORT" >"$INSTANCE"
}

await_health() {
  local end=$((SECONDS + START_SECONDS))
  until is_healthy; do
    if ! main_pid >/dev/null && ! kill -0 "$(cut -d' ' -f1 "$INSTANCE")" 2>/dev/null; then
      fail_start "LocalStack ended while it was starting"
    fi
    [[ $SECONDS -lt $end ]] || fail_start "LocalStack is not healthy after $START_SECONDS s"
    sleep 0.2
  done
}

# The first request to DynamoDB starts DynamoDB Local. On a busy machine that takes longer than clients wait for an answer.
start_dynamodb() {
  curl --silent --fail --noproxy '*' --max-time "$START_SECONDS" --output /dev/null --data '{}' \
    --header 'Content-Type: application/x-amz-json-1.0' --header 'X-Amz-Target: DynamoDB_20120810.ListTables' \
    --header 'Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0' \
    "http://127.0.0.1:$PORT/" || fail_start "LocalStack's DynamoDB does not answer"
}

fail_start() {
  say "$1; the end of $LOG:"
  tail -n 30 "$LOG" >&2
  end_all
  exit 1
}

# SIGTERM to LocalStack, which ends its DynamoDB Local and function processes, then SIGKILL to whatever is left: after
# an interrupted invocation LocalStack often does not end by itself. Its data is in memory: there is none to lose.
end_all() {
  local pids
  pids=$(main_pid || our_pids)
  [[ -n $pids ]] || return 0
  signal TERM "$pids"
  await_end "$STOP_SECONDS" && return
  say "still there after $STOP_SECONDS s, killing: $(our_pids | xargs)"
  signal KILL "$(our_pids)"
  await_end 5 || fail "these processes do not end: $(our_pids | xargs)"
}

signal() { # SIGNAL PIDS ; a process that has just ended is no error
  local pid
  for pid in $2; do
    kill "-$1" "$pid" 2>/dev/null || true
  done
}

await_end() { # SECONDS
  local end=$((SECONDS + $1))
  while [[ -n $(our_pids) ]]; do
    [[ $SECONDS -lt $end ]] || return 1
    sleep 0.1
  done
}

hold_lock() {
  mkdir -p "$CACHE"
  exec 9>"$CACHE/lock"
  flock -w "$LOCK_SECONDS" 9 ||
    fail "another call has held $CACHE/lock for $LOCK_SECONDS s: see what it is doing (fuser $CACHE/lock)"
}

# --- commands ---

print_env() {
  cat <<ENV
export AWS_ENDPOINT_URL=http://127.0.0.1:$PORT
export AWS_ACCESS_KEY_ID=test
export AWS_SECRET_ACCESS_KEY=test
export AWS_REGION=us-east-1
export AWS_DEFAULT_REGION=us-east-1
ENV
}

print_instance() {
  echo "endpoint http://127.0.0.1:$PORT"
  echo "pid $(main_pid)"
  echo "log $LOG"
  print_env
}

up() {
  require_with_installation flock setsid curl
  hold_lock
  choose_port
  if main_pid >/dev/null; then
    [[ $PORT == "$(main_port)" ]] ||
      fail "LocalStack is up on port $(main_port), not on $PORT: use that one, or first $0 down"
    if is_healthy; then
      is_installed || say "the running LocalStack is of an older installation; for the new one: $0 down, then up"
      print_instance
      echo already-up
      return
    fi
    say "LocalStack (pid $(main_pid)) does not answer on port $PORT; starting it again"
  fi
  end_all
  install
  require_free_port
  launch
  await_health
  start_dynamodb
  print_instance
  echo started
}

down() {
  require flock
  hold_lock
  if [[ -z $(our_pids) ]]; then
    echo "nothing is up"
    return
  fi
  end_all
  rm -rf "$RUN/tmp" "$INSTANCE"
  echo stopped
}

status() {
  choose_port
  if ! main_pid >/dev/null; then
    echo "down$(our_pids | xargs -r echo ', but these processes are left (end them with down):')"
    return 3
  fi
  is_healthy && echo up || echo "up, but it does not answer"
  print_instance
}

dynamodb_local() { # PORT
  require_with_installation flock
  (
    hold_lock
    install
  )
  mkdir -p "$CACHE/tmp" # it unpacks a library there, and leaves it; what is older than a day is not in use
  find "$CACHE/tmp" -type f -mtime +0 -delete
  exec env DDB_LOCAL_TELEMETRY=0 java -Xmx512m -Djava.io.tmpdir="$CACHE/tmp" -Djava.library.path="$DYNAMODB/DynamoDBLocal_lib" \
    -jar "$DYNAMODB/DynamoDBLocal.jar" -inMemory -port "$1"
}

case ${1:-} in
  install)
    require_with_installation flock
    hold_lock
    install
    echo "installed: $(head -n 1 "$STAMP")"
    ;;
  up) up ;;
  down) down ;;
  status) status ;;
  env)
    choose_port
    print_env
    ;;
  dynamodb-local)
    [[ $# -eq 2 && $2 =~ ^[0-9]{1,5}$ ]] || fail "dynamodb-local needs a port (0 for a free one)"
    dynamodb_local "$2"
    ;;
  *)
    usage >&2
    exit 2
    ;;
esac

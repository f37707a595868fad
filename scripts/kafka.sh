#!/usr/bin/env bash
# A real Apache Kafka (KRaft, one node) as a plain process, from Maven Central: no Docker.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: scripts/kafka.sh COMMAND

  install    installs into .cache/kafka; does nothing if that is done
  run PORT   is a broker on 127.0.0.1, in the foreground, until SIGTERM or SIGINT; its data go with it. PORT 0 takes a free one.
             Prints `listening 127.0.0.1:PORT` when it takes requests. SIGHUP kills the broker and starts it again with its data. Topics are not created by themselves: idemsk topic create.
USAGE
}

# --- installation ---

readonly KAFKA_VERSION=4.4.0 SLF4J_VERSION=1.7.36
readonly MAVEN_COPY=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies
CACHE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)/.cache/kafka
# shellcheck source=scripts/ports.sh
source "$(dirname "${BASH_SOURCE[0]}")/ports.sh"
readonly CACHE LIB=$CACHE/lib-$KAFKA_VERSION
readonly START_SECONDS=240 # of a busy machine

fail() {
  printf 'kafka: %s\n' "$*" >&2
  exit 1
}

require_java() {
  local version
  version=$(java -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java.specification.version = //p') || true
  [[ ${version%%.*} =~ ^[0-9]+$ && ${version%%.*} -ge 17 ]] || fail "please install Java 17 or later (Debian: openjdk-17-jre-headless)"
}

install() {
  [[ ! -f $LIB/stamp ]] || return 0
  require_java
  command -v mvn >/dev/null || fail "please install Maven 3.6 or later (Debian: maven)"
  mkdir -p "$CACHE"
  exec 9>"$CACHE/lock"
  flock 9
  [[ ! -f $LIB/stamp ]] || return 0
  printf 'kafka: installing Apache Kafka %s, once\n' "$KAFKA_VERSION" >&2
  rm -rf "$LIB"
  mkdir "$LIB"
  # kafka-tools-api of this version is not on Maven Central, and the broker does not need it.
  cat >"$CACHE/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>copy</artifactId><version>1</version><packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$KAFKA_VERSION</version>
<exclusions><exclusion><groupId>org.apache.kafka</groupId><artifactId>kafka-tools-api</artifactId></exclusion></exclusions></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>$SLF4J_VERSION</version></dependency>
</dependencies></project>
POM
  mvn --quiet --batch-mode -f "$CACHE/pom.xml" "$MAVEN_COPY" -DincludeScope=runtime -DoutputDirectory="$LIB" </dev/null >&2 ||
    fail "Maven could not fetch Kafka $KAFKA_VERSION: its messages are above"
  echo >&2 # Maven leaves escape codes in a line that has not ended, and "listening" must begin one
  touch "$LIB/stamp"
  flock -u 9
}

# --- a broker ---

configure() { # DIR PORT CONTROLLER_PORT
  cat >"$1/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$3
listeners=PLAINTEXT://127.0.0.1:$2,CONTROLLER://127.0.0.1:$3
advertised.listeners=PLAINTEXT://127.0.0.1:$2
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$1/data
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=16777216
PROPERTIES
}

readonly JAVA=(java -Xmx256m -Xms64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto
  -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$LIB/*")

dir='' broker='' # of the running broker
stop() {
  if [[ -n $broker ]]; then
    kill -TERM "$broker" 2>/dev/null || true
    wait "$broker" 2>/dev/null || true
  fi
  rm -rf "$dir"
}

run() { # PORT
  [[ ${1:-} =~ ^[0-9]{1,5}$ && $1 -le 65535 ]] || fail "run: give a port, or 0 for a free one"
  if [[ $1 != 0 ]] && (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then
    fail "port $1 of 127.0.0.1 is taken: end what listens there, or give another port (0 takes a free one)"
  fi
  require_java
  install
  local port=$1 controller
  if [[ $port == 0 ]]; then
    read -r port controller < <(free_ports 2)
  else
    controller=$(free_ports 1)
  fi
  trap stop EXIT
  trap 'exit 0' TERM INT
  dir=$(mktemp -d "${TMPDIR:-/tmp}/kafka.XXXXXX")
  configure "$dir" "$port" "$controller"
  local java=("${JAVA[@]}" -Djava.io.tmpdir="$dir") # a broker that is killed leaves libraries there
  "${java[@]}" kafka.tools.StorageTool format -t "$(head -c 16 /dev/urandom | base64 | tr '+/' 'aa' | tr -d =)" \
    -c "$dir/server.properties" >"$dir/log" 2>&1 || {
    cat "$dir/log" >&2
    fail "the broker's folder could not be formatted"
  }
  trap 'restart=1' HUP
  while restart=''; do
    "${java[@]}" kafka.Kafka "$dir/server.properties" >>"$dir/log" 2>&1 </dev/null &
    broker=$!
    await "$broker" "$port" "$dir/log"
    printf 'listening 127.0.0.1:%s\n' "$port"
    wait "$broker" && return
    if [[ -z $restart ]]; then
      tail -n 20 "$dir/log" >&2
      fail "the broker ended by itself: its last lines are above"
    fi
    kill -KILL "$broker" 2>/dev/null || true
    wait "$broker" 2>/dev/null || true
  done
}

await() { # PID PORT LOG
  local end=$((SECONDS + START_SECONDS))
  until (exec 3<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null; do
    if ! kill -0 "$1" 2>/dev/null; then
      tail -n 20 "$3" >&2
      fail "the broker did not start: its last lines are above (is port $2 free?)"
    fi
    [[ $SECONDS -lt $end ]] || fail "the broker did not take connections within $START_SECONDS s"
    sleep 0.1
  done
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

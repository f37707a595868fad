#!/usr/bin/env bash
# Debezium with its connector for PostgreSQL from Maven Central, embedded or in Kafka Connect: no Docker.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: outbox/debezium/debezium.sh COMMAND

  install                       installs into .cache/debezium; does nothing if that is done
  run BROKERS [NAME=VALUE]...   reads an outbox as outbox.properties and the values say, and sends to Kafka, until SIGTERM
  connect BROKERS PORT GROUP    is a worker of Kafka Connect in distributed mode, with Debezium and ExpandHeaders, until SIGTERM. Its REST API is on
                                127.0.0.1:PORT. Workers of one GROUP share its connectors, in the topics GROUP-configs, GROUP-offsets and GROUP-status
  transform FILE.jar            writes ExpandHeaders into a file for the plugin path of your own Kafka Connect
USAGE
}

readonly DEBEZIUM_VERSION=3.6.1.Final SLF4J_VERSION=1.7.36
readonly MAVEN_COPY=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
CACHE=$(cd "$HERE/../.." && pwd -P)/.cache/debezium
readonly HERE CACHE LIB=$CACHE/lib-$DEBEZIUM_VERSION

fail() {
  printf 'debezium: %s\n' "$*" >&2
  exit 1
}

require_java() {
  local version
  version=$(javac -version 2>&1) || true
  version=${version#javac }
  [[ ${version%%.*} =~ ^[0-9]+$ && ${version%%.*} -ge 17 ]] || fail "please install a JDK, 17 or later (Debian: openjdk-17-jdk-headless)"
}

install() {
  [[ ! -f $LIB/stamp ]] || return 0
  require_java
  command -v mvn >/dev/null || fail "please install Maven 3.6 or later (Debian: maven)"
  mkdir -p "$CACHE"
  exec 9>"$CACHE/lock"
  flock 9
  [[ ! -f $LIB/stamp ]] || return 0
  printf 'debezium: installing Debezium %s, once\n' "$DEBEZIUM_VERSION" >&2
  rm -rf "$LIB"
  mkdir "$LIB"
  cat >"$CACHE/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>copy</artifactId><version>1</version><packaging>pom</packaging><dependencies>
<dependency><groupId>io.debezium</groupId><artifactId>debezium-embedded</artifactId><version>$DEBEZIUM_VERSION</version></dependency>
<dependency><groupId>io.debezium</groupId><artifactId>debezium-connector-postgres</artifactId><version>$DEBEZIUM_VERSION</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>$SLF4J_VERSION</version></dependency>
</dependencies></project>
POM
  mvn --quiet --batch-mode -f "$CACHE/pom.xml" "$MAVEN_COPY" -DincludeScope=runtime -DoutputDirectory="$LIB" </dev/null >&2 ||
    fail "Maven could not fetch Debezium $DEBEZIUM_VERSION: its messages are above"
  touch "$LIB/stamp"
  flock -u 9
}

# compile compiles the programs of this directory that are newer than what was compiled, for several processes at a time.
compile() {
  install
  exec 9>"$CACHE/lock"
  flock 9
  if [[ ! -f $LIB/compiled || -n $(find "$HERE" -name '*.java' -newer "$LIB/compiled") ]]; then
    javac -cp "$LIB/*" -d "$LIB/classes" "$HERE"/*.java || fail "the programs of outbox/debezium do not compile: the messages are above"
    touch "$LIB/compiled"
  fi
  flock -u 9
}

java_with() { # MB ARGUMENT...
  exec java "-Xmx${1}m" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    -cp "$LIB/classes:$HERE/services:$LIB/*" "${@:2}"
}

run() { # BROKERS [NAME=VALUE]...
  [[ $# -ge 1 ]] || fail "run: give the addresses of the brokers"
  compile
  java_with 256 Outbox "$1" "$HERE/outbox.properties" "${@:2}"
}

connect() { # BROKERS PORT GROUP
  [[ $# -eq 3 ]] || fail "connect: give the addresses of the brokers, a port and a group"
  compile
  local settings
  settings=$(mktemp)
  exec 8<"$settings" # java opens it by its descriptor: no file is left behind
  cat >"$settings" <<PROPERTIES
bootstrap.servers=$1
group.id=$3
listeners=http://127.0.0.1:$2
config.storage.topic=$3-configs
offset.storage.topic=$3-offsets
status.storage.topic=$3-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.flush.interval.ms=1000
key.converter=io.debezium.converters.BinaryDataConverter
value.converter=io.debezium.converters.BinaryDataConverter
plugin.discovery=service_load
PROPERTIES
  rm "$settings"
  java_with 512 org.apache.kafka.connect.cli.ConnectDistributed /dev/fd/8
}

transform() { # FILE.jar
  [[ $# -eq 1 ]] || fail "transform: give the file"
  compile
  jar --create --file "$1" -C "$LIB/classes" ExpandHeaders.class -C "$HERE/services" META-INF
}

case ${1:-} in
  install) install ;;
  run) run "${@:2}" ;;
  connect) connect "${@:2}" ;;
  transform) transform "${@:2}" ;;
  -h | --help | help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac

#!/usr/bin/env bash
# Debezium with its connector for PostgreSQL, embedded, from Maven Central: no Docker, no Kafka Connect.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: outbox/debezium/debezium.sh COMMAND

  install                       installs into .cache/debezium; does nothing if that is done
  run BROKERS [NAME=VALUE]...   reads an outbox as outbox.properties and the values say, and sends to Kafka, until SIGTERM
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
  javac -cp "$LIB/*" -d "$LIB/classes" "$HERE/Outbox.java" || fail "Outbox.java does not compile: the messages are above"
  touch "$LIB/stamp"
  flock -u 9
}

run() { # BROKERS [NAME=VALUE]...
  [[ $# -ge 1 ]] || fail "run: give the addresses of the brokers"
  install
  if [[ $HERE/Outbox.java -nt $LIB/stamp ]]; then
    javac -cp "$LIB/*" -d "$LIB/classes" "$HERE/Outbox.java"
    touch "$LIB/stamp"
  fi
  local brokers=$1
  shift
  exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    -cp "$LIB/classes:$LIB/*" Outbox "$brokers" "$HERE/outbox.properties" "$@"
}

case ${1:-} in
  install) install ;;
  run) run "${@:2}" ;;
  -h | --help | help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac

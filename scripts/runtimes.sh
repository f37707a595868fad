#!/usr/bin/env bash
# runtimes.sh [java] [web]: installs AWS's own runtime interface clients for Python and Node.js, and with java that for Java, into
# .cache/runtimes, once: functions in these languages use them for the Lambda Runtime API. web installs frameworks of web services
# in Python and Node.js into its folder web. Prints the folder.
#
# The Node client has a native part. Its own installation also builds curl, which needs autotools, libtool and cmake. This script
# builds it from the same sources with the machine's libcurl, which needs only a C++ compiler.
set -euo pipefail

readonly PYTHON_RIC=awslambdaric==4.2.2 NODE_RIC=aws-lambda-ric@3.3.0 JAVA_RIC=2.6.0
readonly WEB_PYTHON='fastapi==0.165.0 uvicorn==0.54.0' WEB_NODE=express@5.3.0
CACHE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)/.cache/runtimes
readonly CACHE STAMP=$CACHE/stamp

fail() {
  printf 'runtimes: %s\n' "$*" >&2
  exit 1
}

require() {
  local tool missing=()
  python3 -c 'import venv, ensurepip, sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || missing+=('Python 3.9 or later with venv (Debian: python3 python3-venv)')
  node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' 2>/dev/null || missing+=('Node.js 18 or later')
  for tool in npm g++ flock; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  [[ ${#missing[@]} -eq 0 ]] || fail "please install: $(printf '%s; ' "${missing[@]}")then try again"
}

install_python() {
  python3 -m venv "$CACHE/python"
  "$CACHE/python/bin/python" -m pip install --quiet --disable-pip-version-check "$PYTHON_RIC"
}

install_node() {
  local headers ric=$CACHE/node/node_modules/aws-lambda-ric
  headers=$(node -p 'require("path").resolve(process.execPath, "../../include/node")')
  [[ -f $headers/node_api.h ]] || fail "Node's headers are not in $headers: install Node.js with them (Debian: libnode-dev)"
  mkdir -p "$CACHE/node"
  (cd "$CACHE/node" && npm install --silent --no-fund --no-audit --ignore-scripts --prefix . "$NODE_RIC") 2>/dev/null ||
    fail "npm could not install $NODE_RIC"
  cd "$ric/deps"
  # shellcheck source=/dev/null
  . ./versions
  tar xzf "curl-$CURL_VERSION.tar.gz" --no-same-owner # for its headers
  tar xzf "aws-lambda-cpp-$AWS_LAMBDA_CPP_RELEASE.tar.gz" --no-same-owner
  local cpp=aws-lambda-cpp-$AWS_LAMBDA_CPP_RELEASE
  sed -e 's/@PROJECT_VERSION_[A-Z]*@/0/; s/@[A-Za-z_-]*@//g' "$cpp/src/version.cpp.in" >"$cpp/src/version.cpp"
  g++ -O1 -w -std=c++17 -fPIC -shared -fexceptions -I"$headers" -I../../node-addon-api \
    -I"curl-curl-$CURL_VERSION/include" -I"$cpp/include" -o ../dist/rapid-client.node \
    ../src/rapid-client.cc "$cpp"/src/{runtime,logging,version}.cpp -l:libcurl.so.4 ||
    fail "the native part of $NODE_RIC could not be built: is libcurl installed (Debian: libcurl4)?"
}

# install_java needs a JDK and Maven. The other clients do not, and neither do their callers.
install_java() {
  command -v mvn >/dev/null || fail "please install Maven 3.6 or later (Debian: maven)"
  rm -rf "$CACHE/java"
  mkdir "$CACHE/java"
  cat >"$CACHE/java/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>copy</artifactId><version>1</version><packaging>pom</packaging><dependencies>
<dependency><groupId>com.amazonaws</groupId><artifactId>aws-lambda-java-runtime-interface-client</artifactId><version>$JAVA_RIC</version></dependency>
</dependencies></project>
POM
  mvn --quiet --batch-mode -f "$CACHE/java/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$CACHE/java" </dev/null >&2 ||
    fail "Maven could not fetch the client $JAVA_RIC for Java: its messages are above"
  printf '%s\n' "$JAVA_RIC" >"$CACHE/java/stamp"
}

install_web() {
  rm -rf "$CACHE/web"
  python3 -m venv "$CACHE/web"
  # shellcheck disable=SC2086 # a list
  "$CACHE/web/bin/python" -m pip install --quiet --disable-pip-version-check $WEB_PYTHON
  (cd "$CACHE/web" && npm install --silent --no-fund --no-audit --ignore-scripts --prefix . "$WEB_NODE") 2>/dev/null ||
    fail "npm could not install $WEB_NODE"
  printf '%s\n' "$WEB_PYTHON $WEB_NODE" >"$CACHE/web/stamp"
}

wanted() { printf '%s %s %s %s\n' "$PYTHON_RIC" "$NODE_RIC" "$(python3 -V)" "$(node -v)"; }

require
mkdir -p "$CACHE"
exec 9>"$CACHE.lock"
flock 9
if [[ ! -f $STAMP || $(cat "$STAMP") != "$(wanted)" ]]; then
  rm -rf "$CACHE"
  mkdir "$CACHE"
  install_python
  (install_node)
  wanted >"$STAMP"
fi
if [[ " $* " == *' java '* && $(cat "$CACHE/java/stamp" 2>/dev/null) != "$JAVA_RIC" ]]; then
  install_java
fi
if [[ " $* " == *' web '* && $(cat "$CACHE/web/stamp" 2>/dev/null) != "$WEB_PYTHON $WEB_NODE" ]]; then
  install_web
fi
printf '%s\n' "$CACHE"

#!/usr/bin/env bash
# with-localstack.sh COMMAND…: runs a command while LocalStack is up, and stops LocalStack again if it was not up before.
set -euo pipefail
here=$(dirname "$0")/..
state=$("$here/localstack/localstack.sh" up | tail -n 1)
if [ "$state" = started ]; then
  trap '"$here/localstack/localstack.sh" down' EXIT
fi
"$@"

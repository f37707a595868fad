#!/usr/bin/env bash
# with-postgres.sh COMMAND…: runs a command while a PostgreSQL server of its own is up, which it finds in IDEMSK_STORE and IDEMSK_STORE_URL.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
"$root/scripts/postgres.sh" install
(cd "$root" && go build -o .cache/bin/with-store ./scripts/with-store)
exec "$root/.cache/bin/with-store" postgres "$@"

#!/usr/bin/env bash
# chromium.sh: installs a headless Chromium that needs no root, and axe-core, into .cache/chromium, once. The tests of the page of idemsk local use them.
# Prints the folder: chromium is the program, to be run with FONTCONFIG_PATH=fonts and LD_LIBRARY_PATH=., and axe.min.js the script.
set -euo pipefail

readonly CHROMIUM=@sparticuz/chromium@147.0.2 AXE=axe-core@4.14.0
CACHE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)/.cache/chromium
readonly CACHE

command -v npm >/dev/null || { echo 'chromium: please install Node.js 20 or later with npm' >&2; exit 1; }
mkdir -p "$CACHE"
exec 9>"$CACHE.lock"
flock 9
if [[ $(cat "$CACHE/stamp" 2>/dev/null) != "$CHROMIUM $AXE 2" ]]; then
  rm -rf "$CACHE"
  mkdir "$CACHE"
  cd "$CACHE"
  npm install --silent --no-fund --no-audit --ignore-scripts --prefix . "$CHROMIUM" "$AXE" 2>/dev/null || { echo "chromium: npm could not install $CHROMIUM and $AXE" >&2; exit 1; }
  # The package unpacks its program, libraries and fonts into the temporary folder.
  TMPDIR=$CACHE node --input-type=module -e 'import c from "@sparticuz/chromium"; await c.executablePath()'
  cat >fonts/fonts.conf <<CONF
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>$CACHE/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>$CACHE/fonts/cache</cachedir>
</fontconfig>
CONF
  cp node_modules/axe-core/axe.min.js .
  rm -rf node_modules package.json package-lock.json
  printf '%s\n' "$CHROMIUM $AXE 2" >stamp
fi
printf '%s\n' "$CACHE"

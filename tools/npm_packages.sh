#!/usr/bin/env bash
# Installs the npm packages that tests compare with and clients that they drive; without them those tests are skipped by
# name. tests/npm holds present versions and the Node they need, tests/npm/node18 those that run on Debian 12's Node.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
root=$(cd "$(dirname "$0")/../tests/npm" && pwd)
record=$(mktemp)
trap 'rm -f "$record"' EXIT

install_folder() {
  cd "$1"
  local stamp=node_modules/.installed_lock
  if [[ -f $stamp ]] && cmp -s package-lock.json "$stamp"; then return; fi
  if ! command -v npm >/dev/null 2>&1; then
    echo "npm packages of ${1#"$root"/}: there is no npm; tests that use them are skipped"
    return
  fi
  if timeout 300 npm ci --no-audit --no-fund --ignore-scripts --loglevel=error \
    --fetch-retries=1 --fetch-retry-mintimeout=1000 >"$record" 2>&1; then
    cp package-lock.json "$stamp"
  else
    grep -m 3 -i "npm err" "$record" || true
    echo "npm packages of ${1#"$root"/}: not installed; tests that use them are skipped"
  fi
}

for folder in "$root" "$root/node18"; do (install_folder "$folder"); done

#!/usr/bin/env bash
# Installs the npm packages that tests compare with; without them those tests are skipped by name.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../tests/npm"
stamp=node_modules/.installed_lock
if [[ -f $stamp ]] && cmp -s package-lock.json "$stamp"; then exit 0; fi
if ! command -v npm >/dev/null 2>&1; then
  echo "npm packages: there is no npm; tests that compare with them are skipped"
  exit 0
fi
record=$(mktemp)
trap 'rm -f "$record"' EXIT
if timeout 300 npm ci --no-audit --no-fund --ignore-scripts --loglevel=error \
  --fetch-retries=1 --fetch-retry-mintimeout=1000 >"$record" 2>&1; then
  cp package-lock.json "$stamp"
else
  grep -m 3 -i "npm err" "$record" || true
  echo "npm packages: not installed; tests that compare with them are skipped"
fi

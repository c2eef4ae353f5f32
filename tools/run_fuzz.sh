#!/usr/bin/env bash
# Runs every fuzz target of a build folder for some seconds: run_fuzz.sh BUILD SECONDS. Corpora stay in the build folder.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
build=$1 seconds=$2 count=0
for target in "$build"/fuzz/*_fuzz; do
  [[ -x $target ]] || continue
  name=$(basename "$target")
  corpus=$build/corpus/$name
  mkdir -p "$corpus" "$build/crashes"
  seeds=()
  if [[ -d tests/corpus/$name ]]; then seeds=("tests/corpus/$name"); fi
  echo "fuzz: $name for $seconds s"
  if ! "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
    -artifact_prefix="$build/crashes/$name-" "$corpus" "${seeds[@]}" >"$build/crashes/$name.log" 2>&1; then
    tail -n 40 "$build/crashes/$name.log" >&2
    echo "fuzz: $name FAILED; the input is in $build/crashes" >&2
    exit 1
  fi
  count=$((count + 1))
done
if ((count == 0)); then
  echo "fuzz: no targets in $build/fuzz" >&2
  exit 1
fi
echo "fuzz: $count targets, $seconds s each, no failure"

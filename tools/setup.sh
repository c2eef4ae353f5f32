#!/usr/bin/env bash
# Installs the Debian packages that are missing for a purpose: setup.sh [demo|test|soak]. Says nothing when none is.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
purpose=${1:-demo}
missing=()

# A machine may have a tool or a library from elsewhere than its packages: what counts is that it is found.
need_command() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
need_file() { compgen -G "/usr/include/$1" >/dev/null || compgen -G "/usr/local/include/$1" >/dev/null || missing+=("$2"); }

need_command cmake cmake
need_command ninja ninja-build
need_command g++ g++
need_command pkg-config pkg-config
need_command ccache ccache
need_command xz xz-utils
need_command git git
need_file fmt/format.h libfmt-dev
need_file spdlog/spdlog.h libspdlog-dev
need_file nlohmann/json.hpp nlohmann-json3-dev
need_file CLI/CLI.hpp libcli11-dev
need_file boost/beast.hpp libboost-dev
need_file openssl/ssl.h libssl-dev
need_file pcre2.h libpcre2-dev
need_file utf8proc.h libutf8proc-dev
need_file gtest/gtest.h libgtest-dev

if [[ $purpose == test || $purpose == soak ]]; then
  [[ -x /usr/bin/python3 ]] || missing+=(python3)
  /usr/bin/python3 -c 'import jinja2' 2>/dev/null || missing+=(python3-jinja2)
fi
if [[ $purpose == test ]] && ! command -v npm >/dev/null 2>&1; then
  missing+=(ca-certificates npm)
  need_command node nodejs
fi
if [[ $purpose == soak ]]; then
  need_command clang++ clang
  runtime=$(clang++ --print-runtime-dir 2>/dev/null || true)
  compgen -G "${runtime:-/none}/libclang_rt.fuzzer*.a" >/dev/null || missing+=(libclang-rt-14-dev)
fi

# The page of the server is driven in Debian's Chromium: 110 MB, and 250 with all that it needs. Without it that test is
# skipped by name, so that nothing fails for want of it.
browser=""
if [[ $purpose == test ]] && ! command -v chromium >/dev/null 2>&1 && grep -qs '^ID=debian' /etc/os-release &&
  command -v apt-get >/dev/null 2>&1 && (($(df --output=avail -k /usr | tail -n 1) > 2000000)); then
  if ((EUID == 0)) || sudo -n true 2>/dev/null; then browser=chromium; fi
fi

if ((${#missing[@]} == 0)) && [[ -z $browser ]]; then exit 0; fi

if ! command -v apt-get >/dev/null 2>&1; then
  echo "setup: missing, and there is no apt-get to install them: ${missing[*]}" >&2
  exit 1
fi
as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null 2>&1; then
    echo "setup: missing: ${missing[*]}; install them as root (there is no sudo)" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "setup: installing ${missing[*]} $browser"
record=$(mktemp)
trap 'rm -f "$record"' EXIT
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >>"$record" 2>&1; }
# Package lists may be older than the mirror, and then downloads fail; a mirror that cannot be reached may still be
# covered by packages that were downloaded before.
apt update || echo "setup: the package lists could not be brought up to date; trying with the present ones" >&2
if ((${#missing[@]} > 0)) && ! apt install -y --no-install-recommends "${missing[@]}"; then
  tail -n 20 "$record" >&2
  echo "setup: apt-get could not install: ${missing[*]}" >&2
  exit 1
fi
# Downloading may take as long as the network likes, and may be stopped at any time; installing may not.
if [[ -n $browser ]]; then
  download=("${as_root[@]}" timeout 240 apt-get -qq -y -o Acquire::http::Timeout=20 install -d --no-install-recommends)
  if ! { "${download[@]}" "$browser" >>"$record" 2>&1 && apt install -y --no-install-recommends "$browser"; }; then
    echo "setup: $browser could not be installed; the test of the chat page is skipped" >&2
  fi
fi

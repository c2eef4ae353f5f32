#!/usr/bin/env bash
# Proves the two commands on a bare Debian 12: prove_bare.sh [ROOT]. Makes a root file system with debootstrap from this
# machine's package sources, clones the committed tree into it, and runs `make demo` and `make test` there. Needs root.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
# In a mount namespace of its own, so that nothing stays mounted when it ends.
if [[ ${2:-} != unshared ]]; then exec unshare --mount "$0" "${1:-$(mktemp -d)}" unshared; fi
source_tree=$(cd "$(dirname "$0")/.." && pwd)
root=$1
release=bookworm

if ! command -v debootstrap >/dev/null 2>&1; then
  apt-get -qq update >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends debootstrap >/dev/null
fi
# The mirror that this machine installs the release's main packages from.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT) $(CREATED_BY)' |
  awk -v release="$release" '$2 == release && $3 == "main" && $4 == "Packages" {print $1; exit}')
if [[ -z $mirror ]]; then
  echo "prove_bare: this machine's package sources have no $release main" >&2
  exit 1
fi

if [[ ! -e $root/etc/debian_version ]]; then
  echo "prove_bare: making $release in $root"
  debootstrap --variant=minbase "$release" "$root" "$mirror" >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; exit 1; }
fi
# How this machine reaches its package sources holds inside as well: addresses, keys, proxies, names, certificates.
rm -rf "$root/etc/apt/sources.list" "$root/etc/apt/sources.list.d"
mkdir -p "$root/etc/apt/sources.list.d" "$root/usr/share/keyrings" "$root/etc/apt/apt.conf.d"
for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources /etc/apt/apt.conf.d/*proxy* /etc/resolv.conf /etc/hosts; do
  if [[ -e $file ]]; then cp -L "$file" "$root$file"; fi
done
cp -n /usr/share/keyrings/debian-archive-* "$root/usr/share/keyrings/" || true
if compgen -G "/usr/local/share/ca-certificates/*.crt" >/dev/null; then
  mkdir -p "$root/usr/local/share/ca-certificates"
  cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
fi
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"

inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 bash -ec "$1"; }
rm -rf "$root/srv/braid"
git clone -q --no-hardlinks "$source_tree" "$root/srv/braid"
inside 'apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends make >/dev/null 2>&1'
for goal in demo test; do
  echo "prove_bare: make $goal"
  start=$SECONDS
  inside "cd /srv/braid && make $goal"
  echo "prove_bare: make $goal took $((SECONDS - start)) s"
done

#!/usr/bin/env bash
# Tries a package in a bare Debian without a compiler: from the package to the first sentence of `tilemark quick`. Root only.
#
#   try.sh SUITE PACKAGE [FLAG…]     SUITE: bookworm or trixie; FLAGs are those of `quick`. Prints the seconds of each part
set -euo pipefail

suite=$1 package=$2
shift 2
root=$(mktemp --directory)
# In namespaces of its own: whatever happens, mounts and processes of the try end with it.
trap 'rm -rf --one-file-system "$root"' EXIT
mmdebstrap --quiet --variant=minbase "$suite" "$root"
cp "$package" "$root/root/tilemark.deb"
[ ! -e /etc/resolv.conf ] || cp /etc/resolv.conf "$root/etc/resolv.conf"
[ ! -e /etc/hosts ] || cp /etc/hosts "$root/etc/hosts"

inside='set -eu
    export DEBIAN_FRONTEND=noninteractive
    began=$(date +%s)
    apt-get update -qq
    apt-get install -yqq --no-install-recommends /root/tilemark.deb >/dev/null
    ! command -v cc
    installed=$(date +%s)
    code=0
    tilemark quick "$@" || code=$?
    answered=$(date +%s)
    [ $code = 0 ] || [ $code = 5 ]
    echo "installed after $((installed - began)) s, answered after $((answered - began)) s"'
unshare --mount --pid --fork --kill-child bash -euc '
    root=$1
    shift
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    for part in sys dev; do mount --rbind "/$part" "$root/$part"; done
    mount -t tmpfs tmpfs "$root/run"
    exec chroot "$root" sh -c "$@"' try "$root" "$inside" try "$@"

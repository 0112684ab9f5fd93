#!/usr/bin/env bash
# An archive and a package for Debian of a built program, with their sums.
#
#   package.sh PROGRAM DIR     DIR is made; files of the same names in it are replaced. LEVEL=1 compresses fast
set -euo pipefail

level=${LEVEL:-9}
here=$(realpath "$(dirname "$0")")
version=$("$1" --version | cut -d ' ' -f 2)
name=tilemark-$version-x86_64-linux
mkdir -p "$2"
out=$(realpath "$2")
work=$(mktemp --directory --tmpdir="$out")
trap 'rm -rf "$work"' EXIT

"$here/tree.sh" "$1" "$work/$name"
XZ_OPT=-$level tar --create --xz --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 \
    --file "$out/$name.tar.xz" --directory "$work" "$name"

mkdir --parents "$work/deb/DEBIAN"
mv "$work/$name" "$work/deb/usr"
documents=$work/deb/usr/share/doc/tilemark
mv "$documents/LICENSE" "$documents/copyright"
gzip --best --no-name "$work"/deb/usr/share/man/man1/*
# What the program calls at run time: the Makefile has the list.
needs=$(sed -n 's/^TOOLS := //p' "$here/../Makefile")
cat >"$work/deb/DEBIAN/control" <<END
Package: tilemark
Version: $version
Architecture: amd64
Maintainer: The developers of Tilemark <tilemark@localhost>
Section: admin
Priority: optional
Installed-Size: $(du --summarize --block-size=1024 "$work/deb/usr" | cut -f 1)
Depends: libc6 (>= 2.31), ${needs// /, }
Description: measures how many guests a Linux/KVM host carries
 Starts guests, loads them as users would, measures from outside, and
 answers how many the host carries before they get slow, what the first
 bottleneck is, what virtualization costs, and which change pays.
END
dpkg-deb --root-owner-group -Zxz "-z$level" --build "$work/deb" "$out/tilemark_${version}_amd64.deb" >/dev/null

cd "$out"
sha256sum "$name.tar.xz" "tilemark_${version}_amd64.deb" | tee SHA256SUMS

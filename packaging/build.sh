#!/usr/bin/env bash
# Builds the program so that one file runs on every distribution with glibc 2.31 or newer: Debian 11, Ubuntu 22.04, RHEL 9.
# The linker that can do this is zig's, called by cargo-zigbuild. Both come from PyPI into DIR, pinned.
#
#   build.sh DIR     prints the path of the program
set -euo pipefail

glibc=2.31
tools=(ziglang==0.17.1 cargo-zigbuild==0.24.1)
mkdir -p "$1"
work=$(realpath "$1")
cd "$(dirname "$0")/.."

if ! "$work/linker/bin/pip" freeze 2>/dev/null | sort | cmp --silent - <(printf '%s\n' "${tools[@]}" | sort); then
    python3 -m venv --clear "$work/linker" >&2 || { echo "  to fix: install python3-venv" >&2; exit 3; }
    "$work/linker/bin/pip" install --quiet "${tools[@]}" >&2
fi
PATH=$work/linker/bin:$PATH cargo-zigbuild zigbuild --release --locked --package tilemark \
    --target "x86_64-unknown-linux-gnu.$glibc" --target-dir "$work/build" >&2
program=$work/build/x86_64-unknown-linux-gnu/release/tilemark
newest=$(objdump -T "$program" | grep --only-matching 'GLIBC_[0-9.]*' | cut -d _ -f 2 | sort --version-sort | tail -n 1)
if [ "$(printf '%s\n' "$newest" "$glibc" | sort --version-sort | tail -n 1)" != "$glibc" ]; then
    echo "error: the program needs glibc $newest, and at most $glibc is wanted" >&2
    exit 1
fi
echo "$program"

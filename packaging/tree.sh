#!/usr/bin/env bash
# The tree that is installed: `bin`, and `share` with the manual, completions, documents and scenarios.
# `make install` and `make dist` both use it; the Makefile has the names that `make uninstall` removes.
#
#   tree.sh PROGRAM DIR     DIR must be new or empty
set -euo pipefail

program=$(realpath "$1")
mkdir -p "$2"
tree=$(realpath "$2")
[ -z "$(ls -A "$tree")" ] || { echo "error: $tree is not empty" >&2; exit 2; }
cd "$(dirname "$0")/.."

install -D --mode=755 "$program" "$tree/bin/tilemark"
"$program" man "$tree/share/man/man1"

completions() {
    mkdir -p "$(dirname "$tree/share/$2")"
    "$program" completion "$1" >"$tree/share/$2"
}
completions bash bash-completion/completions/tilemark
completions zsh zsh/site-functions/_tilemark
completions fish fish/vendor_completions.d/tilemark.fish

documents=$tree/share/doc/tilemark
mkdir -p "$documents"
cp --recursive docs CHANGELOG.md LICENSE PROMISES.md README.md SECURITY.md THIRD-PARTY-NOTICES.txt "$documents"
cp --recursive scenarios profiles -t "$tree/share/doc/tilemark"
chmod --recursive u=rwX,go=rX "$tree"

# Fetches a newer QEMU than this machine's Debian has, from the backports of the archive that it is set up for, which Debian's key signs.
# Nothing is installed, and apt's own lists stay. The firmware is that of the installed one. $1: where its files go.
set -eu
folder=$1
archive=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' 'Origin: Debian' | head -n 1)
[ "$archive" ] || { echo "apt has no archive of Debian" >&2; exit 1; }
release=${archive#* }-backports
rm -rf "$folder.new" "$folder.apt"
trap 'rm -rf "$folder.new" "$folder.apt"' EXIT
mkdir -p "$folder.new" "$folder.apt/state/lists/partial" "$folder.apt/cache/archives/partial" "$folder.apt/packages"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${archive% *} $release main" >"$folder.apt/sources.list"
# Whoever drops root's rights in apt cannot write here.
fetch() {
    apt-get --quiet --quiet -o APT::Sandbox::User=root -o Dir::State="$folder.apt/state" -o Dir::Cache="$folder.apt/cache" \
        -o Dir::Etc::SourceList="$folder.apt/sources.list" -o Dir::Etc::SourceParts=/dev/null "$@"
}
fetch update
cd "$folder.apt/packages"
fetch -t "$release" download qemu-system-x86
dpkg-deb --extract *.deb "$folder.new"
# Not before it is seen to start.
"$folder.new/usr/bin/qemu-system-x86_64" --version >/dev/null
mv --no-target-directory "$folder.new" "$folder"

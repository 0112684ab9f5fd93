# Fetches a newer QEMU than this machine's Debian has: that of the backports in the archive which this machine is set up for. Debian's key
# signs it. Nothing is installed, apt's own lists do not change, and no hook of apt runs. Its firmware is that of the installed QEMU.
# $1: where its files go.
set -eu
folder=$1
. /etc/os-release
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' "Codename: ${VERSION_CODENAME-}" | head -n 1)
[ "$archive" ] || { echo "apt has no archive of Debian" >&2; exit 1; }
work=$(mktemp -d -p "${folder%/*}")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
mkdir -p "$work/files" "$work/state/lists/partial" "$work/cache/archives/partial" "$work/packages"
# For root apt fetches as a user of its own.
chmod 755 "$work"
chown _apt "$work/packages" 2>/dev/null || :
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $VERSION_CODENAME-backports main" >"$work/sources.list"
# Of this machine's own settings only those of connections, such as a proxy.
{
    apt-config dump | grep '^Acquire::' | grep -v '^Acquire::IndexTargets'
    cat <<END
Dir::Etc::Main "/dev/null";
Dir::Etc::Parts "/dev/null";
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State "$work/state";
Dir::Cache "$work/cache";
Acquire::Retries "1";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
END
} >"$work/apt.conf"
export APT_CONFIG="$work/apt.conf"
apt-get --quiet --quiet update
cd "$work/packages"
apt-get --quiet --quiet -t "$VERSION_CODENAME-backports" download qemu-system-x86
dpkg-deb --extract *.deb "$work/files"
# It gets its place only after it has started once.
"$work/files/usr/bin/qemu-system-x86_64" --version >/dev/null
rm -rf "$folder"
mv --no-target-directory "$work/files" "$folder"

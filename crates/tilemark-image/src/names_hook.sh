# Run by mmdebstrap as soon as apt knows the archive. Names that it does not know end the build here, in seconds and
# all at once, in apt's own words, rather than one by one after a minute.
set -eu
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
missing=
for package in $TILEMARK_KERNEL $TILEMARK_PACKAGES; do
    if ! apt-cache show --no-all-versions "$package" >/dev/null 2>&1; then
        missing=yes
        echo "E: Unable to locate package $package" >&2
    fi
done
[ -z "$missing" ]

# Java's package links its manual pages into a folder that is left out with all manuals, and fails without it.
case "$TILEMARK_PACKAGES" in
    *-jre*) mkdir -p "$1/usr/share/man/man1" ;;
esac

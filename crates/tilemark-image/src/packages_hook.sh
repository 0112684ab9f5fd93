# Run by mmdebstrap in the finished tree ($1), before it removes apt's lists. Fetches the kernel's package without
# installing it (its scripts would build an initramfs that nobody boots) and writes down what is installed.
set -eu
tree=$1
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"

cd "$TILEMARK_BUILD/kernel"
# The kernel may be named by a package that only depends on it, and may be split over several.
open=$TILEMARK_KERNEL
wanted=
while [ -n "$open" ]; do
    next=
    for package in $open; do
        case " $wanted " in *" $package "*) continue ;; esac
        wanted="$wanted $package"
        found=$(apt-cache show --no-all-versions "$package" |
            sed -n 's/^Depends: //p' | tr ',|' '\n\n' | sed 's/^ *//; s/[ :(].*//' |
            grep -E '^linux-(image|modules|binary|base)-[0-9]' || true)
        next="$next $found"
    done
    open=$(echo $next)
done
apt-get -o APT::Sandbox::User=root download $wanted

cd "$TILEMARK_BUILD"
chroot "$tree" dpkg-query -W -f '${Package}=${Version}\n' >installed
for package in kernel/*.deb; do
    dpkg-deb -W --showformat '${Package}=${Version}\n' "$package" >>installed
done
xargs apt-cache show <installed >records

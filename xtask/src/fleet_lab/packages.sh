# Makes the layer of packages that the lab's hosts have besides this machine's own files; this machine keeps its packages.
# Runs in a mount namespace of its own. $1: where the layer goes; the rest: Debian packages.
set -eu
layer=$1
shift
rm -rf "$layer.new" "$layer.work"
mkdir -p "$layer.work"
trap 'umount -R "$layer.work/root" "$layer.work" 2>/dev/null || :; rm -rf "$layer.new" "$layer.work"' EXIT
mount -t tmpfs -o mode=755,size=3g tmpfs "$layer.work"
mkdir "$layer.work/up" "$layer.work/work" "$layer.work/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$layer.work/up,workdir=$layer.work/work" "$layer.work/root"
for folder in proc dev; do mount --rbind "/$folder" "$layer.work/root/$folder"; done
# No package starts its service.
printf '#!/bin/sh\nexit 101\n' >"$layer.work/root/usr/sbin/policy-rc.d"
chmod 755 "$layer.work/root/usr/sbin/policy-rc.d"
chroot "$layer.work/root" apt-get update --quiet --quiet
DEBIAN_FRONTEND=noninteractive chroot "$layer.work/root" \
    apt-get install --yes --quiet --quiet --no-install-recommends "$@"
umount -R "$layer.work/root/proc" "$layer.work/root/dev" "$layer.work/root"
rm -rf "$layer.work/up/var/lib/apt/lists" "$layer.work/up/var/cache/apt" "$layer.work/up/tmp"
# With whiteouts and what overlayfs notes in extended attributes.
cp --archive "$layer.work/up" "$layer.new"
mv --no-target-directory "$layer.new" "$layer"

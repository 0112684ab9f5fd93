#!/bin/sh
# Makes a disk as cloud images are: own_disk.sh FILE. A Debian with systemd and cloud-init, its own kernel and a boot loader for BIOS, one
# partition. Run by root in a mount namespace of its own, which takes the mounts with it.
set -eu
file=$1
# Those of Debian that this machine is set up for.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null | head -n 1)
mkdir "$file.root"
truncate -s 2G "$file.part"
# The boot loader reads neither checksums nor numbers of 64 bits. The partition begins at 1 MiB.
mkfs.ext4 -q -F -L cloudroot -O '^64bit,^metadata_csum' -E offset=1048576 "$file.part" 2096128k
mount -o loop,offset=1048576 "$file.part" "$file.root"
mmdebstrap --quiet --variant=apt --mode=root --format=tar \
  --include=linux-image-cloud-amd64,systemd-sysv,udev,dbus,cloud-init,extlinux,syslinux-common,iproute2,ifupdown,kmod,netbase \
  bookworm - ${mirror:+"$mirror"} | tar -C "$file.root" -xf -
kernel=$(cd "$file.root/boot" && echo vmlinuz-*)
mkdir -p "$file.root/boot/extlinux"
cat > "$file.root/boot/extlinux/extlinux.conf" <<END
DEFAULT linux
LABEL linux
  LINUX /boot/$kernel
  INITRD /boot/initrd.img-${kernel#vmlinuz-}
  APPEND root=LABEL=cloudroot ro console=ttyS0,115200
END
echo 'LABEL=cloudroot / ext4 defaults 0 1' > "$file.root/etc/fstab"
# Each guest is a machine of its own.
: > "$file.root/etc/machine-id"
# A service of the disk's own.
cat > "$file.root/etc/systemd/system/pages.service" <<END
[Service]
WorkingDirectory=/usr/share
ExecStart=/usr/bin/python3 -m http.server 8080
[Install]
WantedBy=multi-user.target
END
ln -s ../pages.service "$file.root/etc/systemd/system/multi-user.target.wants/pages.service"
for folder in dev proc sys; do mount --bind "/$folder" "$file.root/$folder"; done
chroot "$file.root" extlinux --install /boot/extlinux >/dev/null 2>&1
boot=$(find "$file.root/usr/lib" -name mbr.bin | head -n 1)
dd if="$boot" of="$file.part" bs=440 count=1 conv=notrunc status=none
for folder in dev proc sys; do umount "$file.root/$folder"; done
umount "$file.root"
rmdir "$file.root"
# One partition that is booted: of Linux, from sector 2,048, with 4,192,256 sectors; then the mark of a boot sector.
printf '\200\040\041\000\203\376\377\377\000\010\000\000\000\370\077\000' | dd of="$file.part" bs=1 seek=446 conv=notrunc status=none
printf '\125\252' | dd of="$file.part" bs=1 seek=510 conv=notrunc status=none
mv "$file.part" "$file"

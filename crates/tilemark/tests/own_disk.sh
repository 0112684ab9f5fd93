#!/bin/sh
# Makes a disk as cloud images are: own_disk.sh FILE bios|uefi. A Debian with systemd and cloud-init, its own kernel and a boot loader, which
# is in the disk's boot sector, or in a partition that only UEFI reads. Run by root in a mount namespace of its own, which takes the mounts
# with it.
set -eu
file=$1
firmware=$2
# Where the root's partition begins and how long it is, in MiB, and the packages of the boot loader.
case $firmware in
  bios) begins=1 length=2047 loader=extlinux,syslinux-common ;;
  # The last MiB is that of the second table of a GPT.
  uefi) begins=257 length=1790 loader=systemd-boot-efi ;;
esac
# Those of Debian that this machine is set up for.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null | head -n 1)
mkdir "$file.root"
truncate -s 2G "$file.part"
# The boot loader for BIOS reads neither checksums nor numbers of 64 bits.
mkfs.ext4 -q -F -L cloudroot -O '^64bit,^metadata_csum' -E offset=$((begins << 20)) "$file.part" $((length << 10))k
mount -o loop,offset=$((begins << 20)) "$file.part" "$file.root"
mmdebstrap --quiet --variant=apt --mode=root --format=tar \
  --include=linux-image-cloud-amd64,systemd-sysv,udev,dbus,cloud-init,$loader,iproute2,ifupdown,kmod,netbase \
  bookworm - ${mirror:+"$mirror"} | tar -C "$file.root" -xf -
kernel=$(cd "$file.root/boot" && echo vmlinuz-*)
initrd=initrd.img-${kernel#vmlinuz-}
command_line='root=LABEL=cloudroot ro console=ttyS0,115200'
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

if [ "$firmware" = bios ]; then
  mkdir -p "$file.root/boot/extlinux"
  cat > "$file.root/boot/extlinux/extlinux.conf" <<END
DEFAULT linux
LABEL linux
  LINUX /boot/$kernel
  INITRD /boot/$initrd
  APPEND $command_line
END
  for folder in dev proc sys; do mount --bind "/$folder" "$file.root/$folder"; done
  chroot "$file.root" extlinux --install /boot/extlinux >/dev/null 2>&1
  for folder in dev proc sys; do umount "$file.root/$folder"; done
  sector=$(find "$file.root/usr/lib" -name mbr.bin | head -n 1)
  dd if="$sector" of="$file.part" bs=440 count=1 conv=notrunc status=none
  umount "$file.root"
  # One partition that is booted: of Linux, from sector 2,048, with 4,192,256 sectors; then the mark of a boot sector.
  printf '\200\040\041\000\203\376\377\377\000\010\000\000\000\370\077\000' | dd of="$file.part" bs=1 seek=446 conv=notrunc status=none
  printf '\125\252' | dd of="$file.part" bs=1 seek=510 conv=notrunc status=none
else
  system="$file.part@@1M"
  mformat -i "$system" -F -T $((256 << 11)) ::
  mmd -i "$system" ::/EFI ::/EFI/BOOT ::/loader ::/loader/entries
  mcopy -i "$system" "$file.root/usr/lib/systemd/boot/efi/systemd-bootx64.efi" ::/EFI/BOOT/BOOTX64.EFI
  mcopy -i "$system" "$file.root/boot/$kernel" ::/linux
  mcopy -i "$system" "$file.root/boot/$initrd" ::/initrd
  printf 'title Debian\nlinux /linux\ninitrd /initrd\noptions %s\n' "$command_line" | mcopy -i "$system" - ::/loader/entries/debian.conf
  umount "$file.root"
  sfdisk --quiet --label gpt "$file.part" <<END
start=2048, size=524288, type=uefi
start=526336, size=3665920, type=linux
END
fi
rmdir "$file.root"
mv "$file.part" "$file"

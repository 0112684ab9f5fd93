# Runs in the lab once it is up: what a distribution's own start would have done.
# Arguments: of each program its name and how many bytes of its disk it has.
mkdir -p /dev/virtio-ports /dev/hugepages /var/cache/tilemark /var/lib/tilemark
for port in /sys/class/virtio-ports/*; do
    read -r name <"$port/name"
    ln -s "/dev/${port##*/}" "/dev/virtio-ports/$name"
done
disk() {
    for found in /sys/block/*; do
        [ "$(cat "$found/serial" 2>/dev/null)" != "$1" ] || echo "/dev/${found##*/}"
    done
}
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t hugetlbfs hugetlbfs /dev/hugepages
mount -t erofs -o ro "$(disk tilemark-cache)" /var/cache/tilemark
number=0
while [ $# -gt 0 ]; do
    head -c "$2" "$(disk tilemark-program$number)" >"/usr/local/bin/$1"
    chmod 755 "/usr/local/bin/$1"
    number=$((number + 1))
    shift 2
done
tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id
hostname lab
depmod
modprobe -a tun vhost_net bridge veth loop xfs vfio_pci vfio_iommu_type1
# Not where its processors are Intel's, by `--smt`.
[ "$(cat /sys/devices/system/cpu/smt/control)" = on ] || modprobe kvm_amd
data=$(disk tilemark-data)
# One that an earlier lab left has its file system already.
[ -n "$(blkid "$data")" ] || mkfs.xfs -q "$data"
mount "$data" /var/lib/tilemark

# The first process of a host: its file system, its network, its services. All that it starts ends with it.
# $1: its name; $2: its address; $3: ctl or node; $4: the lab's folder; $5: the layer of packages; $6: the program; $7: the images.
set -eu
name=$1 address=$2 role=$3 lab=$4 layer=$5 program=$6 images=$7
root=$lab/$name/root
mount -t overlay overlay -o "lowerdir=$layer:/,upperdir=$lab/$name/up,workdir=$lab/$name/work" "$root"
if [ ! -e "$lab/$name/begun" ]; then
    # This machine's own are not the host's.
    rm -rf "$root/var/lib/tilemark" "$root/var/cache/tilemark" "$root/root/.ssh"
    mkdir -p "$root/var/cache/tilemark/images" "$root/root/.ssh" "$root/etc/slurm" "$root/lab"
    chmod 700 "$root/root/.ssh"
    cp "$lab/keys/id.pub" "$root/root/.ssh/authorized_keys"
    cp "$lab/keys/$name" "$root/etc/ssh/lab_key"
    cp "$lab/slurm.conf" "$root/etc/slurm/slurm.conf"
    # It uses no control groups, and would look for the plugin of this machine's trees, which it may not find.
    echo CgroupPlugin=cgroup/v1 >"$root/etc/slurm/cgroup.conf"
    cp "$lab/sshd_config" "$root/etc/ssh/sshd_config"
    printf '127.0.0.1 localhost\n10.99.0.10 ctl\n10.99.0.11 n1\n10.99.0.12 n2\n10.99.0.13 n3\n' >"$root/etc/hosts"
    touch "$root/usr/local/bin/tilemark"
    # One who is not root, and may use sudo without a password. A star is not a password, and does not lock the account either.
    echo 'lab:x:4711:4711::/home/lab:/bin/sh' >>"$root/etc/passwd"
    echo 'lab:*:19000::::::' >>"$root/etc/shadow"
    echo 'lab:x:4711:' >>"$root/etc/group"
    mkdir -p "$root/home/lab/.ssh" "$root/etc/sudoers.d"
    cp "$lab/keys/id.pub" "$root/home/lab/.ssh/authorized_keys"
    chown -R 4711:4711 "$root/home/lab"
    chmod 700 "$root/home/lab/.ssh"
    echo 'lab ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/lab"
    chmod 440 "$root/etc/sudoers.d/lab"
    if [ "$role" = ctl ]; then
        cp "$lab/keys/id" "$root/root/.ssh/id_ed25519"
        cp "$lab/keys/known_hosts" "$root/root/.ssh/known_hosts"
        cp "$lab"/*.toml "$root/root/"
        cp "$lab/power" "$root/usr/local/bin/power"
    fi
    touch "$lab/$name/begun"
fi
hostname "$name"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
mkdir "$root/sys/fs/cgroup/unified"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --bind "$program" "$root/usr/local/bin/tilemark"
mount --bind "$images" "$root/var/cache/tilemark/images"
mount -o remount,bind,ro "$root/var/cache/tilemark/images"
[ "$role" != ctl ] || mount --bind "$lab/ctl-door" "$root/lab"
cd "$root"
mkdir -p .old
pivot_root . .old
umount -l /.old
cd /
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ip link set lo up
until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
ip addr add "$address/24" dev eth0
ip link set eth0 up
mkdir -p /run/munge /var/log/munge /var/log/slurm /var/spool/slurmd /run/sshd /run/lock
chmod 755 /run/munge /run/sshd
chown munge:munge /run/munge /var/log/munge
chown slurm:slurm /var/log/slurm
setpriv --reuid=munge --regid=munge --clear-groups munged
if [ "$role" = ctl ]; then
    mkdir -p /var/lib/slurm/slurmctld
    chown -R slurm:slurm /var/lib/slurm
    setpriv --reuid=slurm --regid=slurm --clear-groups slurmctld -D &
else
    slurmd -D -N "$name" &
    /usr/sbin/sshd -D &
    # A host is up when it can be reached, and not when its last program was started.
    tries=0
    until grep -qs ':0016 [0-9A-F:]* 0A ' /proc/net/tcp /proc/net/tcp6; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || break
        sleep 0.05
    done
fi
touch /run/up
# It reaps, and ends when it is killed.
while :; do sleep 3600 & wait; done

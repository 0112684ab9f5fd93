#!/bin/sh
# What a hostile image tries in a native twin. Each line of output names an attempt that reached the host; a tight twin
# prints nothing but that all calls were tried, and `done`. Nothing here does harm where it succeeds: values are restored.
reached() { echo "reached: $1"; }
works() { name=$1; shift; "$@" >/dev/null 2>&1 && reached "$name"; }

for tool in chrt dmesg find head hostname mknod mount nsenter perl timeout umount unshare; do
    command -v $tool >/dev/null || reached "nothing: there is no $tool to try it with"
done

# Devices of the host: each disk, and what acts on memory, the kernel's messages, consoles and new devices.
while read -r major minor _ disk; do
    [ -n "$disk" ] && [ "$disk" != name ] || continue
    rm -f /tmp/node; mknod /tmp/node b "$major" "$minor" 2>/dev/null && works "disk $disk" head -c 1 /tmp/node
done < /proc/partitions
for device in mem:1:1 port:1:4 kmsg:1:11 tty0:4:0 loop-control:10:237 fuse:10:229 kvm:10:232 tun:10:200 vsock:10:241; do
    rm -f /tmp/node /dev/node; rest=${device#*:}
    for place in /tmp /dev /run /root; do
        mknod "$place/node" c "${rest%:*}" "${rest#*:}" 2>/dev/null && reached "node of ${device%%:*} in $place"
    done
done

# Mounts and roots.
mkdir -p /tmp/m
for kind in proc sysfs tmpfs cgroup2 devtmpfs debugfs tracefs securityfs binfmt_misc bpf; do
    works "mount of $kind" mount -t $kind none /tmp/m
done
works "bind mount" mount --bind / /tmp/m
works "remount of /proc" mount -o remount,bind,rw /proc
works "remount of /sys" mount -o remount,bind,rw /sys
works "unmount of /proc" umount /proc
works "chroot" chroot / /bin/true

# Namespaces.
for kind in -m -U -n -p -i -u -C; do works "unshare $kind" unshare $kind /bin/true; done
for kind in mnt net pid uts ipc cgroup user; do works "namespace $kind" nsenter --$kind=/proc/1/ns/$kind /bin/true; done

# Settings of the host.
again() { value=$(cat "$1" 2>/dev/null) && (echo "$value" > "$1") 2>/dev/null && reached "setting $1"; }
for setting in vm/swappiness vm/overcommit_memory kernel/panic kernel/core_pattern kernel/modprobe fs/file-max \
    kernel/sched_rt_runtime_us kernel/hostname net/core/somaxconn; do
    again /proc/sys/$setting
done
for setting in /proc/1/oom_score_adj /proc/irq/default_smp_affinity /proc/mtrr \
    /sys/kernel/mm/ksm/run /sys/kernel/mm/ksm/pages_to_scan /sys/block/loop0/queue/read_ahead_kb /sys/kernel/uevent_helper; do
    again $setting
done
(printf h > /proc/sysrq-trigger) 2>/dev/null && reached "sysrq"
for file in /proc/kcore /proc/kmsg /proc/keys /proc/timer_list /proc/slabinfo /proc/sched_debug /proc/kpageflags \
    /proc/kpagecount /proc/vmallocinfo; do
    [ -n "$(timeout 1 head -c 1 $file 2>/dev/null | tr '\0' x)" ] && reached "contents of $file"
done
works "the kernel's messages" dmesg

# Processes and groups.
[ "$(cat /proc/self/cgroup)" = "0::/" ] || grep -q '^0::/$' /proc/self/cgroup || reached "names of groups: $(tail -n 1 /proc/self/cgroup)"
works "memory of process 1" head -c 1 /proc/1/mem
works "files of process 1" readlink /proc/1/fd/0
# Devices of another file system than /dev, by descriptors that processes were handed: their mode is the host's.
for descriptor in /proc/[0-9]*/fd/*; do
    [ -c "$descriptor" ] || [ -b "$descriptor" ] || continue
    [ "$(stat -L -c %d "$descriptor")" = "$(stat -c %d /dev)" ] && continue
    works "mode of $descriptor, $(readlink "$descriptor")" chmod "$(stat -L -c %a "$descriptor")" "$descriptor"
done
works "priority" nice -n -5 sh -c '[ "$(nice)" -lt 0 ]'
works "real time" chrt -f 1 /bin/true
works "host name" hostname other

# The same and more by bare system calls (numbers of x86-64): EPERM is the wall. ENOSYS would be a kernel without the call, where
# another has it.
perl -e '
    my %calls = (
        "mount" => [165, 0, 0, 0, 0, 0], "umount2" => [166, 0, 0], "pivot_root" => [155, 0, 0], "chroot" => [161, 0],
        "swapon" => [167, 0, 0], "swapoff" => [168, 0], "reboot" => [169, 1, 1, 1, 0], "iopl" => [172, 3], "ioperm" => [173, 0, 1, 1],
        "init_module" => [175, 0, 0, 0], "delete_module" => [176, 0, 0], "finit_module" => [313, -1, 0, 0],
        "kexec_load" => [246, 0, 0, 0, 0], "kexec_file_load" => [320, -1, -1, 0, 0, 0],
        "add_key" => [248, 0, 0, 0, 0, -3], "request_key" => [249, 0, 0, 0, -3], "keyctl" => [250, 0, -3, 0],
        "bpf" => [321, 0, 0, 0], "perf_event_open" => [298, 0, 0, -1, -1, 0], "userfaultfd" => [323, 0],
        "open_by_handle_at" => [304, -1, 0, 0], "name_to_handle_at" => [303, -1, 0, 0, 0, 0],
        "setns" => [308, -1, 0], "unshare" => [272, 0x10000000],
        "fsopen" => [430, 0, 0], "fsconfig" => [431, -1, 0, 0, 0, 0], "fsmount" => [432, -1, 0, 0], "fspick" => [433, -1, 0, 0],
        "move_mount" => [429, -1, 0, -1, 0, 0], "open_tree" => [428, -1, 0, 0], "mount_setattr" => [442, -1, 0, 0, 0, 0],
        "ptrace of 1" => [101, 16, 1, 0, 0], "process_vm_readv" => [310, 1, 0, 0, 0, 0, 0], "pidfd_getfd" => [438, -1, 0, 0],
        "kcmp" => [312, 1, 1, 0, 0, 0], "quotactl" => [179, 0, 0, 0, 0], "acct" => [163, 1], "syslog" => [103, 10, 0, 0],
        "clock_settime" => [227, 99, 0], "settimeofday" => [164, 1, 0], "clock_adjtime" => [305, 99, 0], "adjtimex" => [159, 0],
        "mount by its x32 number" => [165 | 0x40000000, 0, 0, 0, 0, 0], "keyctl by its x32 number" => [250 | 0x40000000, 0, -3, 0],
        "ioctl by its x32 number" => [514 | 0x40000000, 0, 0x5412, 0], "ptrace by its x32 number" => [521 | 0x40000000, 16, 1, 0, 0],
        "kexec_load by its x32 number" => [528 | 0x40000000, 0, 0, 0, 0],
        "process_vm_readv by its x32 number" => [539 | 0x40000000, 1, 0, 0, 0, 0, 0],
        "process_vm_writev by its x32 number" => [540 | 0x40000000, 1, 0, 0, 0, 0, 0], "getpid by its x32 number" => [39 | 0x40000000],
        "pair of vsock" => [53, 40, 1, 0, 0], "pair of TIPC" => [53, 30, 1, 0, 0],
        "clone with a user namespace" => [56, 0x10000000 | 17, 0, 0, 0, 0],
        "socket of vsock" => [41, 40, 1, 0], "socket of CAN" => [41, 29, 3, 1], "socket of TIPC" => [41, 30, 1, 0], "socket of the kernel ciphers" => [41, 38, 5, 0], "raw socket" => [41, 17, 3, 0],
        "socket of SCTP" => [41, 2, 5, 132], "socket of SCTP over IPv6" => [41, 10, 1, 132], "socket of DCCP" => [41, 2, 6, 33],
        "socket of DCCP by its type" => [41, 2, 6, 0], "socket of L2TP" => [41, 2, 2, 115], "socket of SMC" => [41, 2, 1, 256],
        "netlink of sockets" => [41, 16, 3, 4], "netlink of net filters" => [41, 16, 3, 12], "netlink by name" => [41, 16, 3, 16],
        "module of virtual networks" => [16, 0, 0x8983, 0], "module of bridges" => [16, 0, 0x8940, 0],
    );
    for my $name (sort keys %calls) {
        my ($number, @arguments) = @{$calls{$name}};
        $! = 0;
        my $answer = syscall($number, map { $_ + 0 } @arguments);
        exit 0 if $name =~ /clone/ && $answer == 0;
        print "reached: call $name: $answer, errno ", $! + 0, "\n" unless $answer == -1 && $! == 1;
    }
    print "all calls tried\n";
'
# A line discipline of a terminal of its own makes the host load its module, such as that of PPP.
perl -e 'open(my $own, "+<", "/dev/ptmx") or exit 1; exit(!ioctl($own, 0x5423, my $number = pack("i", 3)) && $! == 1 ? 1 : 0)' &&
    reached "line discipline of a terminal"
# Registers and memory of the host's PCI devices.
for file in /sys/bus/pci/devices/*/resource* /sys/bus/pci/devices/*/config /sys/devices/pci*/*/resource* /sys/devices/pci*/*/config; do
    works "PCI device $file" test -e "$file"
done

find /sys/devices \( -name 'resource*' -o -name config \) -path '*/pci*' 2>/dev/null | while read -r file; do
    reached "PCI device $file"
done
# What they are, and the machine's serial numbers.
for file in /proc/bus/pci/*/* /proc/scsi/* /sys/devices/virtual/dmi/id/*; do works "contents of $file" head -c 1 "$file"; done

# A crash would start the host's program for core dumps, as root and outside of the twin, unless the limit is exactly 1.
limit=$(perl -e '
    syscall(160, 4, my $less = pack("QQ", 0, 0));
    syscall(302, 0, 4, $less, 0);
    open(my $own, "<", "/proc/self/limits"); print grep(/core file/, <$own>);')
echo "$limit" | grep -q '^Max core file size  *1  *1 ' || reached "the host by a core dump: $limit"
grep -q '^Max core file size  *1  *1 ' /proc/1/limits || reached "the host by a core dump of process 1"

grep -q '^NoNewPrivs:.*1' /proc/self/status || reached "new privileges"
grep -q '^Seccomp:.*2' /proc/self/status || reached "all system calls"
# 4fb: the eight of services.
for set in $(sed -n 's/^Cap\(Bnd\|Prm\|Eff\):.//p' /proc/self/status); do
    [ $((0x$set & ~0x4fb)) = 0 ] || reached "capabilities $set"
done
echo done

# Writes the profile that the lab's trials and tests of `host apply` share, as $profile: values that differ from those of a fresh boot, each
# of them optional. Who uses it says what must be there (`lab.rs`, `host_cuts.rs`) and prints what the lab lacks.
profile=/tmp/many.toml
modprobe -a br_netfilter nvme 2>/dev/null || true
# The driver finds its disk some time later.
for look in $(seq 100); do [ ! -e /sys/block/nvme0n1 ] || break; sleep 0.1; done
mount -t debugfs none /sys/kernel/debug 2>/dev/null || true
cat >"$profile" <<'T'
schema = 1
name = "many"
about = "Several dozen settings."
T
while read -r key value; do
    printf '[[setting]]\nkey = "%s"\nvalue = "%s"\nsource = "a trial"\noptional = true\n' "$key" "$value" >>"$profile"
done <<'T'
vm.dirty_bytes 100000000
vm.dirty_background_bytes 50000000
vm.swappiness 11
vm.zone_reclaim_mode 1
vm.overcommit_memory 1
vm.max_map_count 262144
vm.stat_interval 10
vm.compaction_proactiveness 5
kernel.numa_balancing 0
kernel.timer_migration 0
kernel.sched_autogroup_enabled 0
kernel.sched_rt_runtime_us 900000
fs.aio-max-nr 1048576
fs.inotify.max_user_instances 1024
net.core.somaxconn 8192
net.core.rmem_max 16777216
net.core.wmem_max 16777216
net.core.netdev_max_backlog 5000
net.core.busy_poll 50
net.ipv4.tcp_rmem 4096 131072 16777216
net.ipv4.tcp_wmem 4096 65536 16777216
net.ipv4.tcp_timestamps 0
net.ipv4.neigh.default.gc_thresh3 16384
thp never
thp.defrag never
thp.khugepaged.defrag 0
thp.khugepaged.pages_to_scan 8192
thp.khugepaged.scan_sleep_millisecs 5000
ksm on
ksm.pages_to_scan 200
ksm.sleep_millisecs 50
hugepages.2MiB 33
block.*.nr_requests 64
block.*.read_ahead_kb 256
block.*.scheduler mq-deadline
block.*.rq_affinity 2
block.*.nomerges 1
irq.default 0-1
workqueue.cpumask 0-1
cgroup.favordynmods on
cpuset.isolated 3
kvm.halt_poll_ns 100000
module.nvme_core.io_timeout 40
sched.migration_cost_ns 600000
nic.eth0.rps_cpus 1
irq.eth0.affinity 0-1
irq.nvme0n1.affinity 0-1
smt off
T

# Runs after host_profile.sh in the lab, whose /var/lib/tilemark stays when its power is cut. $1: how often `host apply` is killed before that.
# Prints `boot same` where recovering after a power cut left every value as it was at the first boot, `kill same` for each kill,
# `applying` when the power may be cut; and instead of `same` what differs.
cd /var/lib/tilemark || exit 1
values() {
    tilemark host plan "$profile" --json | grep '"path": "' | cut -d'"' -f4 | xargs grep -H '' >"$1" 2>&1
    grep cgroup /proc/mounts >>"$1"
    find /sys/fs/cgroup -maxdepth 1 -name 'tilemark*' >>"$1"
}
compared() { # $1: what happened; $2: what was done after it
    values now
    if cmp -s before now; then echo "$1 same"; else echo "$1 differs: $(diff before now | tr '\n' ' ')"; fi
    if [ -s "$2" ]; then echo "$1 reported: $(tr '\n' ' ' <"$2")"; fi
}
if [ -e before ]; then
    tilemark recover >recovered 2>&1 || echo "boot ended with $?: $(cat recovered)"
    compared boot recovered
else
    values before
    sync
fi
number=0
while [ "$number" -lt "$1" ]; do
    tilemark host apply "$profile" --yes >/dev/null 2>&1 &
    sleep "0.$((10 + number * 37 % 90))"
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    { tilemark recover && tilemark host restore; } >recovered 2>&1 || echo "kill failed: $(cat recovered)"
    compared kill /dev/null
    number=$((number + 1))
done
echo applying
while :; do
    tilemark host apply "$profile" --yes
    tilemark host restore
done >/dev/null 2>&1

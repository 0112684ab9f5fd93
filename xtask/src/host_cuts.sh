# Runs after host_profile.sh in the lab, whose /var/lib/tilemark stays when its power is cut. $1: how often `host apply` is killed before that.
# Prints what host_cuts.rs reads, one thing a line: `whole same` where the profile was applied, verified and restored at the first boot, with
# the keys that it `changes` and those `skipped`; `boot same` where recovering after a power cut left every value unchanged, and how many
# journals the cut had left; `kill same`
# for each kill, and what it had left; `applying` when the power may be cut. Instead of `same` comes what differs, and `failed` with the reason.
cd /var/lib/tilemark || exit 1
values() {
    xargs grep -H '' <paths >"$1" 2>&1
    grep cgroup /proc/mounts >>"$1"
    find /sys/fs/cgroup -maxdepth 1 -name 'tilemark*' >>"$1"
}
compared() { # $1: what happened
    values now
    if cmp -s before now; then echo "$1 same"; else echo "$1 differs: $(diff before now | tr '\n' ' ')"; fi
}
failed() { # $1: what was done; $2: its exit code; $3: what it printed
    echo "failed: $1 ended with $2: $(tr '\n' ' ' <"$3")"
    exit 1
}
# The lines that are not as before.
changed_lines() {
    values now
    grep -cvxFf before now
}
# The keys that the plan has in this state, with their number first.
keys() {
    awk -F '"' -v state="$1" '$2 == "key" { key = $4 } $2 == "state" && $4 == state { print key }' plan | sort -u >keys
    echo "$1 $(wc -l <keys): $(tr '\n' ' ' <keys)"
}
milliseconds() {
    echo $(($(date +%s%N) / 1000000))
}
apply_whole() {
    tilemark host plan "$profile" --json >plan || failed 'host plan' $? plan
    grep '"path": "' plan | cut -d '"' -f 4 | sort -u >paths
    values before
    tilemark host apply "$profile" --yes >out 2>&1 || failed 'host apply' $? out
    tilemark host verify "$profile" >out 2>&1 || failed 'host verify' $? out
    changed_lines >whole_changes
    keys changes
    keys skipped
    tilemark host restore >out 2>&1 || failed 'host restore' $? out
    compared whole
    # The first one of a boot takes longer than those after it.
    begun=$(milliseconds)
    tilemark host apply "$profile" --yes >out 2>&1 || failed 'host apply' $? out
    echo $(($(milliseconds) - begun)) >apply_takes
    tilemark host restore >out 2>&1 || failed 'host restore' $? out
    echo 0 >kills
    sync
}
# Each kill comes at another hundredth of the time that an apply takes.
kill_one() {
    kills=$(($(cat kills) + 1))
    echo "$kills" >kills
    wait_ms=$(($(cat apply_takes) * (kills * 37 % 100) / 100))
    tilemark host apply "$profile" --yes >out 2>&1 &
    sleep "$((wait_ms / 1000)).$(printf %03d $((wait_ms % 1000)))"
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    code=$?
    # 137: it was killed.
    [ $code = 137 ] || [ $code = 0 ] || failed 'host apply' $code out
    echo "kill left $(changed_lines) of $(cat whole_changes)"
    { tilemark recover && tilemark host restore; } >recovered 2>&1 || failed 'recover or host restore' $? recovered
    compared kill
}
if [ -e kills ]; then
    # A cut hit where it left a journal: `recover` drops that of another boot, and has nothing to report of it.
    echo "boot found $(find state/.host -name 'appl*.json' | wc -l) journals"
    tilemark recover >recovered 2>&1 || failed recover $? recovered
    compared boot
else
    apply_whole
fi
number=0
while [ "$number" -lt "$1" ]; do
    kill_one
    number=$((number + 1))
done
sync
echo applying
while :; do
    tilemark host apply "$profile" --yes >out 2>&1 || failed 'host apply' $? out
    tilemark host restore >out 2>&1 || failed 'host restore' $? out
done

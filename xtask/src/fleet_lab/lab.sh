# The lab: first process of namespaces of its own; hosts and their bridge exist nowhere else. When it ends, all ends.
# $1: an empty folder; $2: the layer of packages; $3: the program; $4: the images; $5: host.sh; $6: slurm.conf; the rest: the command.
# Standard input is closed when whoever started this has ended, however it ended.
set -u
lab=$1 layer=$2 program=$3 images=$4 host_script=$5 slurm=$6
shift 6
exec 9<&0 </dev/null
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

groups=$(findmnt --noheadings --types cgroup2 --output TARGET --first-only)
group=$groups/tilemark-lab-$(stat --format=%i /proc/self/ns/pid)

# Control groups are the one thing that outlives the namespaces: those of one host, with all below them.
group_gone() {
    [ -d "$1" ] || return 0
    echo 1 >"$1/cgroup.kill" 2>/dev/null
    tries=0
    while [ -d "$1" ] && [ $tries -lt 200 ]; do
        find "$1" -depth -type d -exec rmdir {} + 2>/dev/null
        tries=$((tries + 1))
        [ ! -d "$1" ] || sleep 0.05
    done
}
end() {
    trap '' TERM
    for name in ctl n1 n2 n3; do off "$name"; done
    group_gone "$group"
}
fail() {
    exec 1>&2
    echo "fleet-lab: $1"
    for file in "$lab"/*/log; do
        echo "--- $file"
        tail -n 15 "$file"
    done
    end
    exit 125
}
trap 'end; exit 143' TERM

process() { cat "$lab/$1/process" 2>/dev/null; }
inside() { # host, command…
    of=$1
    shift
    nsenter --target "$(process "$of")" --mount --net --uts --ipc --pid --cgroup -- \
        env --chdir=/root HOME=/root TILEMARK_HOME= "$@"
}
off() {
    [ -n "$(process "$1")" ] || return 0
    kill -9 "$(process "$1")" 2>/dev/null
    rm -f "$lab/$1/process"
    group_gone "$group/$1"
    tools ip link del "v$1" 2>/dev/null
    return 0
}
on() {
    [ -z "$(process "$1")" ] || return 0
    mkdir -p "$lab/$1/up" "$lab/$1/work" "$lab/$1/root" "$group/$1" || return 1
    case $1 in ctl) address=10.99.0.10 role=ctl ;; *) address=10.99.0.1${1#n} role=node ;; esac
    sh -c 'echo 0 >"$1/cgroup.procs"; shift; exec "$@"' sh "$group/$1" \
        unshare --mount --net --uts --ipc --pid --cgroup --fork --kill-child \
        sh "$host_script" "$1" "$address" "$role" "$lab" "$layer" "$program" "$images" \
        >>"$lab/$1/log" 2>&1 9<&- &
    above=$!
    tries=0
    until child=$(cat "/proc/$above/task/$above/children" 2>/dev/null) && [ -n "$child" ]; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || return 1
        sleep 0.02
    done
    child=${child%% *}
    # unshare has executed nothing yet where its child is still of our own network.
    until [ "$(readlink "/proc/$child/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
    echo "$child" >"$lab/$1/process"
    tools ip link add "v$1" type veth peer name eth0 netns "$child" || return 1
    tools ip link set "v$1" master br0 up
}
up() {
    tries=0
    until inside "$1" test -e /run/up 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] && [ -d "/proc/$(process "$1")" ] || return 1
        sleep 0.05
    done
}
tools() { chroot "$lab/tools" "$@"; }

mkdir -p "$group" || fail "no control group can be made at $group"
# Those that a killed lab could not take away hold nothing, and go now. Fresh ones may be of a lab that starts.
find "$groups" -depth -path "$groups/tilemark-lab-*" ! -path "$group*" -type d -mmin +60 -exec rmdir {} + 2>/dev/null
mount -t tmpfs -o mode=755,size=12g tmpfs "$lab" || fail "no tmpfs can be mounted on $lab"
mkdir "$lab/tools" "$lab/keys" "$lab/ctl-door"
# overlayfs takes no layer that is below another one.
cp --archive "$layer" "$lab/packages" || fail "the packages cannot be copied from $layer"
layer=$lab/packages
mount -t overlay overlay -o "lowerdir=$layer:/" "$lab/tools" || fail "the packages cannot be laid over this machine's files"
mount --bind /proc "$lab/tools/proc"
mount --bind /dev "$lab/tools/dev"
mount --bind "$lab/keys" "$lab/tools/mnt"
sed "s/PROCESSORS/$(nproc)/" "$slurm" >"$lab/slurm.conf"
cat >"$lab/sshd_config" <<'T'
HostKey /etc/ssh/lab_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
MaxStartups 100
T
for name in id n1 n2 n3 ctl; do
    tools ssh-keygen -q -t ed25519 -N "" -C "$name" -f "/mnt/$name" || fail "no key was made"
done
for name in 1 2 3; do
    echo "n$name,10.99.0.1$name $(cut -d' ' -f1,2 "$lab/keys/n$name.pub")"
done >"$lab/keys/known_hosts"
{
    printf 'schema = 1\nengine = "ssh"\nlost_after = "10s"\n'
    for name in 1 2 3; do
        printf '\n[[host]]\nname = "n%s"\naddress = "10.99.0.1%s"\nuser = "root"\ngroups = ["lab"]\n' $name $name
    done
} >"$lab/ssh.toml"
sed 's/"ssh"/"slurm"\npartition = "hosts"/; /^address/d; /^user/d' "$lab/ssh.toml" >"$lab/slurm.toml"
sed 's/"ssh"/"slurm"\ncarrier = "ssh"/' "$lab/ssh.toml" >"$lab/slurm-ssh.toml"
sed 's/"root"/"lab"/' "$lab/ssh.toml" >"$lab/sudo.toml"
# On the submitting host `power off n2` is a power cut, and `power on n2` a boot: answered when it is done. `power unplug n2` takes
# its cable out, and `power plug n2` puts it back.
mkfifo "$lab/ctl-door/power" "$lab/ctl-door/done"
cat >"$lab/power" <<'T'
#!/bin/sh
case "$1 $2" in "on n"[123] | "off n"[123] | "plug n"[123] | "unplug n"[123]) ;; *) echo "usage: power on|off|plug|unplug n1|n2|n3" >&2; exit 2 ;; esac
echo "$1 $2" >/lab/power
read -r answer </lab/done
[ "$answer" = done ] || { echo "power: $answer" >&2; exit 1; }
T
chmod 755 "$lab/power"

tools ip link set lo up
tools ip link add br0 type bridge
tools ip link set br0 up || fail "no bridge can be made"
for name in ctl n1 n2 n3; do on "$name" || fail "the host $name was not started"; done
for name in ctl n1 n2 n3; do up "$name" || fail "the host $name did not come up"; done
tries=0
until [ "$(inside ctl sinfo --noheader --partition=hosts --states=idle --format=%D 2>/dev/null)" = 3 ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || fail "Slurm does not show three idle hosts"
    sleep 0.1
done

(
    while read -r verb name <"$lab/ctl-door/power"; do
        case $verb in
        off) off "$name" && echo done ;;
        on) on "$name" && up "$name" && echo done ;;
        plug) tools ip link set "v$name" up && echo done ;;
        unplug) tools ip link set "v$name" down && echo done ;;
        esac >"$lab/ctl-door/done" 2>>"$lab/ctl/log" || echo "it could not be done" >"$lab/ctl-door/done"
    done
) 9<&- >/dev/null 2>&1 &
(
    read -r _ <&9
    kill -TERM 1
) >/dev/null 2>&1 &
inside ctl "$@" 9<&- &
wait $!
code=$?
end
exit $code

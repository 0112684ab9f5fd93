# Attacks on fleet runs of real hosts, in the lab (`cargo xtask fleet-lab`): runs on the submitting host, in a folder with the site files.
# ATTACKS: which, with spaces. ROUNDS: how many hosts with whole repeats die in `deaths`, how many repeats `begin` has, how many fleets
# `alike` has, how many pairs `cost`. Each prints one line of JSON: its name, and why it failed or what a
# person reads. Processes are ended by their numbers, and only in namespaces of the lab.
short="--on native --offline --tiles 1 --set measure.repeats=1 --set measure.warmup=1s --set measure.length=2s"
long="--on native --offline --tiles 1 --set measure.repeats=6 --set measure.warmup=1s --set measure.length=1s"
home=/var/lib/tilemark
mkdir -p /root/shims /root/.ssh
printf 'Host n1 n2 n3\nUser root\nControlMaster no\nBatchMode yes\nConnectTimeout 5\n' >/root/.ssh/config
# Known by their names too.
sed -i 's/^/n1,n2,n3,/' /root/.ssh/known_hosts

fail() { # why
    failed="$failed${failed:+; }$1"
}
report() { # attack, what a person reads
    # A JSON text: no quote, no control letter.
    text=$(printf '%s' "${failed:-$2}" | tr '"\\\n\t' "''  ")
    if [ -n "$failed" ]; then
        printf '{"attack":"%s","failed":"%s"}\n' "$1" "$text"
    else
        printf '{"attack":"%s","read":"%s"}\n' "$1" "$text"
    fi
    failed=
}
end_of() { # document, host
    awk -v host="\"$2\"," '$1 == "\"name\":" { name = $2 } $1 == "\"end\":" && name == host { gsub(/[",]/, "", $2); print $2; exit }' "$1"
}
because_of() { # document, host
    awk -v host="\"$2\"," '$1 == "\"name\":" { name = $2 } $1 == "\"because\":" && name == host { sub(/^ *"because": "/, ""); sub(/",$/, ""); print; exit }' "$1"
}
newest() { basename "$(ls -d $home/fleets/*-web* | tail -n 1)"; }
number_of() { # document, key
    sed -n "s/^  \"$2\": \([0-9]*\),/\1/p" "$1" | head -n 1
}
measured_is() { # document, how many, as many as that may be too
    case "$(number_of "$1" measured)" in "$2" | "${3:-$2}") ;; *) fail "measured $(number_of "$1" measured), not $2: $(tail -n 3 notes)" ;; esac
}
# Waits until a command succeeds.
until_so() { # seconds, command…
    end_s=$(($(date +%s) + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt $end_s ] || return 1
        sleep 0.1
    done
}
attempts_are() { # fleet run, host, how many
    found=$(ssh "$2" "ls -d $home/fleet-jobs/$1/$2/attempt-? 2>/dev/null | wc -l")
    [ "$found" = "$3" ] || fail "$2 has $found attempts of $1, not $3"
}
jobs_are() { # fleet run, host, how many
    found=$(squeue --noheader --states=all --name="tilemark-$1-$2" | wc -l)
    [ "$found" = "$3" ] || fail "Slurm was given $found jobs for $2, not $3"
}
# Processes of a host that are of a fleet run: its script, its run and what that started.
processes() { # host
    ssh "$1" "ps -e -o pid=,comm=,args=" | awk '
        $2 ~ /^(munged|slurmd|sshd|sleep|ps)$/ || $2 == "sh" && $0 !~ /fleet-jobs|attempt-/ { next } { print }'
}
has_nothing() { # host: it answers, and no process of a fleet run is left
    left=$(ssh "$1" true && processes "$1" || echo "it does not answer")
    [ -z "$left" ]
}
gone_within_15s() { # host
    until_so 15 has_nothing "$1" || fail "left on $1 after 15 s: $left"
}
measures() { # host: its record has been begun
    ssh "$1" "ls $home/fleet-jobs/$(newest)/$1/attempt-0/record/plan.json"
}
# Ends processes of a host by what they are called.
kill_there() { # host, pattern of ps
    for number in $(ssh "$1" "ps -e -o pid=,args=" | awk -v wanted="$2" '$0 ~ wanted && !/awk/ { print $1 }'); do
        ssh "$1" "kill -9 $number" 2>/dev/null
    done
}
start() { # site, flags…: a fleet run in the background, and its hosts measure
    site=$1
    shift
    known=$(ls $home/fleets 2>/dev/null | wc -l)
    tilemark fleet run web --site "$site" "$@" --json >run.json 2>notes </dev/null &
    run=$!
    until_so 20 more_than "$known" || fail "no fleet run was begun: $(tail -n 3 notes)"
    for name in n1 n2 n3; do until_so 30 measures $name || fail "$name does not begin: $(tail -n 3 notes)"; done
}
more_than() { [ "$(ls $home/fleets 2>/dev/null | wc -l)" -gt "$1" ]; }

attack_submitter() { # killed before Slurm has the job, and after it has it
    for when in before after; do
        real=$(command -v sbatch)
        if [ $when = before ]; then
            printf '#!/bin/sh\nkill -9 $PPID\n' >/root/shims/sbatch
        else
            printf '#!/bin/sh\n%s "$@"\nkill -9 $PPID\n' "$real" >/root/shims/sbatch
        fi
        chmod 755 /root/shims/sbatch
        PATH=/root/shims:$PATH tilemark fleet run web --site slurm.toml $short --json >run.json 2>notes
        [ $? = 137 ] || fail "the submitter was not killed $when sbatch"
        tilemark fleet run --resume --json >run.json 2>notes
        measured_is run.json 3
        for name in n1 n2 n3; do
            jobs_are "$(newest)" $name 1
            attempts_are "$(newest)" $name 1
        done
        report "submitter-killed-$when-sbatch" "$(number_of run.json measured) of 3 measured once, after fleet run --resume"
    done
}
attack_script() { # the host's script is killed: its run ends with it
    start ssh.toml $long
    kill_there n1 'sh .*fleet-jobs.*job.sh'
    gone_within_15s n1
    wait $run
    [ "$(end_of run.json n1)" = lost ] || fail "n1 ended as $(end_of run.json n1)"
    # Where its run had a whole repeat, it closes its record as it ends, and that comes home.
    measured_is run.json 2 3
    attempts_are "$(newest)" n1 1
    report killed-script "n1: $(because_of run.json n1)"
}
attack_command_there() { # the run on the host is killed
    start ssh.toml $long
    kill_there n1 '^ *[0-9]+ tilemark run'
    gone_within_15s n1
    wait $run
    [ "$(end_of run.json n1)" = lost ] || fail "n1 ended as $(end_of run.json n1)"
    measured_is run.json 2
    report killed-run "n1: $(because_of run.json n1)"
}
attack_sshd() { # all of a host's sshd: its work outlives them
    start ssh.toml $long
    # The last one that is killed is the one that kills.
    ssh n1 'listener=$(cat /run/sshd.pid 2>/dev/null); for p in $(ps -e -o pid=,comm= | awk "\$2 == \"sshd\" { print \$1 }" | sort -rn); do [ $p = $PPID ] || kill -9 $p; done; setsid sh -c "sleep 4; /usr/sbin/sshd" </dev/null >/dev/null 2>&1 & kill -9 $PPID' 2>/dev/null
    wait $run
    measured_is run.json 3
    attempts_are "$(newest)" n1 1
    gone_within_15s n1
    report killed-sshd "all 3 measured once; sshd of n1 was away for 4 s"
}
attack_ssh() { # every ssh of the submitting host
    start ssh.toml $long
    for number in $(ps -e -o pid=,comm= | awk '$2 == "ssh" { print $1 }'); do kill -9 "$number"; done
    wait $run
    measured_is run.json 3
    for name in n1 n2 n3; do attempts_are "$(newest)" $name 1; done
    report killed-ssh "all 3 measured once"
}
attack_command_here() { # the command that waits: its ssh end with it, and the hosts go on
    start ssh.toml $long
    kill -9 $run
    wait $run 2>/dev/null
    until_so 15 no_carrier || fail "an ssh outlives its command"
    tilemark fleet run --resume --json >run.json 2>notes
    measured_is run.json 3
    for name in n1 n2 n3; do
        attempts_are "$(newest)" $name 1
        gone_within_15s $name
    done
    report killed-command "all 3 measured once, after fleet run --resume"
}
no_carrier() { [ -z "$(ps -e -o comm= | grep -x ssh)" ]; }
has_whole_repeat() { # host
    ssh "$1" "ls $home/fleet-jobs/$(newest)/$1/attempt-0/record/points/*/repeat-*/summary.json"
}
attack_stepd() { # Slurm's keeper of the job, on the host
    # It would measure for a minute, also where all six repeats are discarded, since three hosts share the processors.
    start slurm.toml $long --set measure.length=10s
    fleet=$(newest)
    until_so 30 has_whole_repeat n1 || fail "n1 has no whole repeat: $(tail -n 3 notes)"
    kill_there n1 'slurmstepd'
    gone_within_15s n1
    wait $run
    case $(end_of run.json n1) in
    # By the attempt that was killed, or by the one that Slurm began after it.
    lost | no-answer | trusted | not-trusted | cannot-tell) ;;
    *) fail "n1 ended as $(end_of run.json n1): $(because_of run.json n1)" ;;
    esac
    said="n1 ended as $(end_of run.json n1): $(because_of run.json n1)"
    repeats=$(ls -d $home/fleets/"$fleet"/hosts/n1/attempt-0/record/points/*/repeat-* | wc -l)
    [ "$repeats" -gt 0 ] && [ "$repeats" -lt 4 ] || fail "$repeats repeats of n1 came home"
    jobs_are "$fleet" n1 1
    tilemark fleet cancel >cancelled 2>>notes || fail "cancel: $(cat cancelled)"
    [ -z "$(squeue --noheader --states=pending)" ] || fail "left in the queue: $(squeue --noheader)"
    # Slurm keeps the job as completing, because its keeper is gone, until the host boots.
    power off n1
    power on n1
    until_so 60 all_idle || fail "Slurm does not show three idle hosts: $(sinfo --noheader)"
    report killed-stepd "$said"
}
all_idle() { [ "$(sinfo --noheader --partition=hosts --states=idle --format=%D)" = 3 ]; }
attack_srun() { # the question that fetches a record
    tilemark fleet run web --site slurm.toml $short --detach --json >run.json 2>notes
    until_so 60 all_jobs_over || fail "the jobs do not end"
    tilemark fleet collect --json >run.json 2>notes &
    collect=$!
    until_so 10 has_srun || fail "no srun was seen"
    for number in $(ps -e -o pid=,comm= | awk '$2 == "srun" { print $1 }'); do kill -9 "$number" 2>/dev/null; done
    wait $collect
    until_so 15 all_jobs_over || fail "left in the queue after 15 s: $(squeue --noheader)"
    for name in n1 n2 n3; do gone_within_15s $name; done
    tilemark fleet collect --json >run.json 2>notes
    measured_is run.json 3
    report killed-srun "collected again: $(number_of run.json measured) of 3"
    # The command that asks over srun: its srun end their jobs.
    rm -rf $home/fleets/"$(newest)"/hosts
    tilemark fleet collect --json >run.json 2>notes &
    collect=$!
    until_so 10 has_srun || fail "no srun was seen"
    kill -9 $collect
    wait $collect 2>/dev/null
    until_so 15 all_jobs_over || fail "left in the queue after 15 s: $(squeue --noheader)"
    tilemark fleet collect --json >run.json 2>notes
    measured_is run.json 3
    report killed-command-over-srun "nothing is left in the queue; collected again: $(number_of run.json measured) of 3"
}
has_srun() { [ -n "$(ps -e -o comm= | grep -x srun)" ]; }
all_jobs_over() { [ -z "$(squeue --noheader)" ]; }
attack_collect() { # cut at bytes, and killed
    tilemark fleet run web --site ssh.toml $short --detach --json >run.json 2>notes
    fleet=$(newest)
    for name in n1 n2 n3; do until_so 60 ssh $name "ls $home/fleet-jobs/$fleet/$name/attempt-0/exit" || fail "$name does not end"; done
    printf '#!/bin/sh\n/usr/bin/ssh "$@" | head -c $(cat /root/cut)\n' >/root/shims/ssh
    chmod 755 /root/shims/ssh
    number=1
    while [ $number -le "${CUTS:-6}" ]; do
        # The fractional parts of the golden ratio's multiples, over 64 KiB.
        awk -v n=$number 'BEGIN { x = n * 0.61803398875; printf "%d\n", (x - int(x)) * 65536 }' >/root/cut
        PATH=/root/shims:$PATH tilemark fleet collect --json >run.json 2>notes
        awk -v n=$number 'BEGIN { x = n * 0.61803398875; printf "%.2f\n", (x - int(x)) * 0.5 + 0.02 }' >/root/after
        timeout --signal=KILL "$(cat /root/after)" tilemark fleet collect --json >run.json 2>notes
        number=$((number + 1))
    done
    tilemark fleet collect --json >run.json 2>notes
    measured_is run.json 3
    for name in n1 n2 n3; do
        there=$(ssh $name "cd $home/fleet-jobs/$fleet/$name/attempt-0/record && find . -type f -exec sha256sum {} + | sort | sha256sum")
        here=$(cd $home/fleets/"$fleet"/hosts/$name/attempt-0/record && find . -type f -exec sha256sum {} + | sort | sha256sum)
        [ "$there" = "$here" ] || fail "the record of $name is not the one on the host"
        [ "$(ls -A $home/fleets/"$fleet"/hosts/$name | grep -vc '^\.')" = 1 ] || fail "more than an attempt of $name is here"
    done
    report collect-cut-and-killed "$((number - 1)) cuts and as many kills, then the same hashes on 3 hosts"
}
attack_link() { # a cable that is out for 5 s, and for longer than lost_after
    start ssh.toml $long
    power unplug n2
    sleep 5
    power plug n2
    wait $run
    measured_is run.json 3
    attempts_are "$(newest)" n2 1
    report link-cut-5s "all 3 measured once"
    start ssh.toml $long
    power unplug n2
    wait $run
    [ "$(end_of run.json n2)" = no-answer ] || fail "n2 ended as $(end_of run.json n2)"
    measured_is run.json 2
    said="n2: $(because_of run.json n2)"
    power plug n2
    until_so 60 ssh n2 "ls $home/fleet-jobs/$(newest)/n2/attempt-0/exit" || fail "n2 does not end"
    tilemark fleet collect --json >run.json 2>notes
    measured_is run.json 3
    attempts_are "$(newest)" n2 1
    report link-cut-until-lost "$said"
}
attack_disk_before() { # full before the work
    ssh n2 "mkdir -p $home && mount -t tmpfs -o size=64k tmpfs $home && head -c 1M /dev/zero >$home/full" 2>/dev/null
    tilemark fleet run web --site ssh.toml $short --json >run.json 2>notes
    ssh n2 "umount $home"
    [ "$(end_of run.json n2)" = unfit ] || fail "n2 ended as $(end_of run.json n2)"
    case $(because_of run.json n2) in *"disk is full"*"free some space"*) ;; *) fail "n2: $(because_of run.json n2)" ;; esac
    measured_is run.json 2
    report disk-full-before "n2: $(because_of run.json n2)"
}
attack_disk_meanwhile() { # full while it measures
    ssh n2 "mkdir -p $home && mount -t tmpfs -o size=2200m tmpfs $home"
    start ssh.toml $long
    ssh n2 "head -c 3G /dev/zero >$home/full" 2>/dev/null
    wait $run
    ssh n2 "rm $home/full"
    gone_within_15s n2
    tilemark fleet collect --json >run.json 2>notes
    ssh n2 "umount $home"
    case $(end_of run.json n2) in unfit | lost | guest-failed | not-trusted | cannot-tell) ;; *) fail "n2 ended as $(end_of run.json n2)" ;; esac
    case $(because_of run.json n2) in *"No space left"* | *"disk"*"full"* | *space*) ;; *) fail "n2: $(because_of run.json n2)" ;; esac
    report disk-full-while-measuring "n2 ended as $(end_of run.json n2): $(because_of run.json n2)"
}
attack_two() { # two fleet runs of the same hosts at once
    for site in ssh.toml slurm-ssh.toml; do
        tilemark fleet run web --site $site $short --json >first.json 2>notes.first &
        first=$!
        sleep 1.2
        tilemark fleet run web --site $site $short --json >second.json 2>notes &
        second=$!
        wait $first $second
        measured_is first.json 3
        measured_is second.json 3
        for fleet in $(ls $home/fleets | grep web | tail -n 2); do
            for name in n1 n2 n3; do attempts_are "$fleet" $name 1; done
        done
        report "two-at-once-$site" "3 and 3 measured once, one after the other on each host"
    done
}
attack_queue() { # a job that never starts
    scontrol update nodename=n3 state=drain reason=attack
    tilemark fleet run web --site slurm-ssh.toml $short --wait-at-most 25s --json >run.json 2>notes
    measured_is run.json 2
    said="n3 ended as $(end_of run.json n3): $(because_of run.json n3); $(tilemark fleet status | grep n3)"
    jobs_are "$(newest)" n3 1
    tilemark fleet cancel >cancelled 2>>notes || fail "cancel: $(cat cancelled)"
    all_jobs_over || fail "a job is left in the queue"
    tilemark fleet report --json >run.json 2>>notes
    [ "$(end_of run.json n3)" = never-started ] || fail "n3 ended as $(end_of run.json n3) after cancel"
    scontrol update nodename=n3 state=resume
    report job-that-never-starts "$said; after cancel: $(because_of run.json n3)"
}
attack_limit() { # a job that Slurm asks to end one minute before its limit of time
    sed 's/^partition.*/&\ntime = "2m"/' slurm.toml >limit.toml
    start limit.toml --on native --offline --tiles 1 --set measure.repeats=9 --set measure.warmup=1s --set measure.length=20s
    fleet=$(newest)
    wait $run
    measured_is run.json 3
    for name in n1 n2 n3; do
        case $(end_of run.json $name) in
        not-trusted | cannot-tell) ;;
        *) fail "$name ended as $(end_of run.json $name): $(because_of run.json $name)" ;;
        esac
        jobs_are "$fleet" $name 1
        gone_within_15s $name
    done
    report limit-of-time "n1 ended as $(end_of run.json n1): $(because_of run.json n1)"
}
attack_requeue() { # a host of Slurm's without power while it measures: its job begins again when it is back
    start slurm-ssh.toml $long
    fleet=$(newest)
    until_so 30 has_whole_repeat n2 || fail "n2 has no whole repeat: $(tail -n 3 notes)"
    power off n2
    wait $run
    measured_is run.json 2
    [ "$(end_of run.json n2)" = lost ] || fail "n2 ended as $(end_of run.json n2): $(because_of run.json n2)"
    said="n2: $(because_of run.json n2)"
    power on n2
    tilemark fleet run --resume --json >run.json 2>notes
    measured_is run.json 3
    for name in n1 n2 n3; do jobs_are "$fleet" $name 1; done
    attempts_are "$fleet" n1 1
    attempts_are "$fleet" n2 2
    for attempt in 0 1; do
        there=$(ssh n2 "cd $home/fleet-jobs/$fleet/n2/attempt-$attempt/record && find points -name summary.json -exec sha256sum {} + | sort")
        here=$(cd $home/fleets/"$fleet"/hosts/n2/attempt-$attempt/record && find points -name summary.json -exec sha256sum {} + | sort)
        [ -n "$here" ] && [ "$there" = "$here" ] || fail "whole repeats of attempt $attempt of n2 are not here"
    done
    gone_within_15s n2
    all_jobs_over || fail "left in the queue: $(squeue --noheader)"
    report requeued-by-slurm "$said; then $(number_of run.json measured) of 3, n2 by its second attempt"
}
attack_phases() { # a host without power while it is asked, while it is given the work, and while its record is fetched
    said= unanswered=0
    for after in 0.1 0.3 0.5 0.7 0.9 1.2; do
        known=$(ls $home/fleets 2>/dev/null | wc -l)
        tilemark fleet run web --site ssh.toml $short --json >run.json 2>notes </dev/null &
        run=$!
        sleep $after
        power off n1
        wait $run
        power on n1
        more_than "$known" || fail "no fleet run was begun: $(tail -n 3 notes)"
        measured_is run.json 2
        was=$(end_of run.json n1)
        [ "$was" != no-answer ] || unanswered=$((unanswered + 1))
        tilemark fleet run --resume --json >run.json 2>notes
        measured_is run.json 2 3
        # The hosts share a kernel, which may still have the loop devices of the one that was killed.
        case "$(end_of run.json n1) $(because_of run.json n1)" in
        "trusted "* | "not-trusted "* | "cannot-tell "* | "lost "* | "not-restored "*"loop device"*) ;;
        *) fail "n1 ended as $(end_of run.json n1): $(because_of run.json n1)" ;;
        esac
        attempts_are "$(newest)" n1 1
        gone_within_15s n1
        said="$said${said:+; }$after s: $was, then $(end_of run.json n1)"
    done
    [ $unanswered -gt 0 ] || fail "n1 never was without power before it had answered"
    report killed-while-it-is-asked "$said"
    tilemark fleet run web --site ssh.toml $short --detach --json >run.json 2>notes
    fleet=$(newest)
    for name in n1 n2 n3; do until_so 60 ssh $name "ls $home/fleet-jobs/$fleet/$name/attempt-0/exit" || fail "$name does not end"; done
    cut=0
    for after in 0.05 0.1 0.15 0.2 0.3 0.4; do
        rm -rf $home/fleets/"$fleet"/hosts/n1
        tilemark fleet collect --json >run.json 2>notes &
        run=$!
        sleep $after
        power off n1
        wait $run
        measured_is run.json 2 3
        [ "$(number_of run.json measured)" = 3 ] || cut=$((cut + 1))
        power on n1
    done
    [ $cut -gt 0 ] || fail "each record was home before n1 was without power"
    tilemark fleet collect --json >run.json 2>notes
    measured_is run.json 3
    there=$(ssh n1 "cd $home/fleet-jobs/$fleet/n1/attempt-0/record && find . -type f -exec sha256sum {} + | sort | sha256sum")
    here=$(cd $home/fleets/"$fleet"/hosts/n1/attempt-0/record && find . -type f -exec sha256sum {} + | sort | sha256sum)
    [ "$there" = "$here" ] || fail "the record of n1 is not the one on the host"
    report killed-while-its-record-is-fetched "$cut times before it was here, then the same hashes"
}

# Client machines: this host is measured, and its guests are on a bridge of its own.
with_clients="--set load.web.from=clients --on native --offline --not-alone --tiles 3 --set measure.warmup=1s"
bridge_here() {
    [ ! -e clients.toml ] || return 0
    ip link add br0 type bridge
    ip addr flush dev eth0
    ip link set eth0 master br0
    ip addr add 10.99.0.10/24 dev br0
    ip link set br0 up
    printf 'schema = 1\n[[client]]\nname = "n1"\n[[client]]\nname = "n2"\ncarrier = "srun"\npartition = "hosts"\n[[client]]\nname = "n3"\n[network]\nbridge = "br0"\naddresses = "10.99.0.64-10.99.0.127"\n' >clients.toml
    until_so 30 ssh n1 true || fail "n1 is not reached over the bridge"
}
agents_of() { # host
    ssh "$1" "ps -e -o pid=,args=" | awk '/tilemark-client[^ ]* client [0-9]/ && !/awk/ { print $1 }'
}
has_agent() { [ -n "$(agents_of "$1")" ]; }
is_gone() { # host, numbers of agents: it answers, and has none of them
    ssh "$1" true || return 1
    for number in $2; do ! agents_of "$1" | grep -qx "$number" || return 1; done
}
attack_clients() { # what carries the agent of a client, the agent itself, and a cable
    bridge_here
    for what in ${CLIENTS:-agent-over-ssh agent-over-srun ssh srun stepd cable}; do
        case $what in *srun | stepd) name=n2 ;; *) name=n1 ;; esac
        rm -rf /root/record
        tilemark run web --site clients.toml $with_clients --set measure.repeats=1 --set measure.length=14s --output /root/record >out 2>notes </dev/null &
        run=$!
        for each in n1 n2 n3; do until_so 60 has_agent $each || fail "$each has no agent: $(tail -n 3 notes)"; done
        sleep 5
        agents=$(agents_of $name | tr '\n' ' ')
        [ -n "$agents" ] || fail "$name has no agent any more: $(tail -n 3 notes)"
        case $what in
        agent-*) ssh $name "kill -9 $agents" ;;
        ssh) for number in $(ps -e -o pid=,args= | awk '$2 ~ /ssh$/ && / n1( |$)/ { print $1 }'); do kill -9 "$number"; done ;;
        srun) for number in $(ps -e -o pid=,comm= | awk '$2 == "srun" { print $1 }'); do kill -9 "$number"; done ;;
        stepd) kill_there n2 slurmstepd ;;
        cable)
            power unplug n1
            # It hears nothing for so long that it ends itself.
            sleep 13
            power plug n1
            ;;
        esac
        until_so 15 is_gone $name "$agents" || fail "an agent of $name lives on after 15 s: $(ssh $name "ps -e -o pid=,args=")"
        wait $run
        code=$?
        case $code in 0 | 5) ;; *) fail "exit code $code: $(tail -n 5 notes)" ;; esac
        words=$(grep -ho "client $name was lost: [^\"]*" /root/record/points/*/repeat-*/summary.json | head -n 1)
        [ -n "$words" ] || fail "no repeat says that $name was lost: $(tail -n 3 notes)"
        for each in n1 n2 n3; do
            until_so 15 no_client_of $each || fail "left on $each: $(ssh $each "ls -d /tmp/tilemark-client.*; ps -e -o pid=,args=")"
        done
        if [ $what = stepd ]; then
            # As in attack_stepd.
            power off n2
            power on n2
        fi
        until_so 60 all_jobs_over || fail "left in the queue: $(squeue --noheader)"
        until_so 60 all_idle || fail "Slurm does not show three idle hosts: $(sinfo --noheader)"
        report "client-$what" "$words"
    done
}
no_client_of() { # host
    [ "$(ssh "$1" 'ls -d /tmp/tilemark-client.* 2>/dev/null; echo answered')" = answered ] && ! has_agent "$1"
}
attack_begin() { # when clients over ssh and srun begin
    bridge_here
    rm -rf /root/record
    tilemark run web --site clients.toml $with_clients --set "measure.repeats=${ROUNDS:-3}" --set measure.length=2s --output /root/record >out 2>notes
    for summary in /root/record/points/*/repeat-*/summary.json; do
        printf '{"summary":%s}\n' "$(tr -d '\n' <"$summary")"
    done
    report begin "$(ls -d /root/record/points/*/repeat-* | wc -l) repeats"
}

# Hosts of the lab share processors: one measures at a time.
fair="--on native --offline --tiles 1 --at-once 1 --set load.web.rate=2500/s --set measure.repeats=5 --set measure.warmup=1s --set measure.length=2s"
sentence_of() { # document
    sed -n 's/^  "sentence": "\(.*\)",*$/\1/p' "$1"
}
attack_slow() { # one host whose server is stopped half of the time
    ssh n2 "cat >/root/slow.pl" <<'T'
use strict;
my ($looked, @servers) = 0;
sub is_server {
    open(my $file, "<", "/proc/$_[0]/comm") or return 0;
    return (<$file> // "") eq "nginx\n";
}
while (1) {
    if (time != $looked) {
        $looked = time;
        @servers = grep { is_server($_) } map { m{([0-9]+)$} } glob "/proc/[0-9]*";
    }
    kill "STOP", @servers;
    select undef, undef, undef, 0.001;
    kill "CONT", @servers;
    select undef, undef, undef, 0.001;
}
T
    ssh n2 "setsid perl /root/slow.pl </dev/null >/dev/null 2>&1 &"
    tilemark fleet run web --site ssh.toml $fair --json >run.json 2>notes
    said=$(sentence_of run.json)
    case $said in *"n2 differs"*) ;; *) fail "n2 is not named: $said" ;; esac
    tilemark fleet confirm --json >run.json 2>notes
    tilemark fleet report --json >run.json 2>>notes
    confirmed=$(sentence_of run.json)
    case $confirmed in *"n2 differs"*) ;; *) fail "n2 is not named any more: $confirmed" ;; esac
    case $confirmed in *"n1 differs"* | *"n3 differs"* | *suspect*) fail "after fleet confirm: $confirmed" ;; esac
    ssh n2 'kill $(ps -e -o pid=,args= | awk "/perl .root.slow.pl/ && !/awk/ { print \$1 }")'
    report slow-host "$said; confirmed: $confirmed"
}
attack_alike() { # fleets of equal hosts: a suspect is measured again, and is named where it differs again
    fleets=0 suspected=0 named=0
    while [ $fleets -lt "${ROUNDS:-1}" ]; do
        tilemark fleet run web --site ssh.toml $fair --json >run.json 2>notes
        fleets=$((fleets + 1))
        measured_is run.json 3
        [ "$(number_of run.json trusted)" = 3 ] || fail "trusted $(number_of run.json trusted), not 3: nothing is compared"
        said=$(sentence_of run.json)
        case $said in
        *" differ"*)
            suspected=$((suspected + 1))
            fleet=$(newest)
            tilemark fleet confirm "$fleet" --json >run.json 2>notes
            tilemark fleet report "$fleet" --json >run.json 2>>notes
            said=$(sentence_of run.json)
            case $said in *"Confirmed by"*) named=$((named + 1)) ;; esac
            ;;
        esac
        echo "$fleets fleets, $suspected of them with a suspect, $named with one that is confirmed: $said" >&2
        tilemark fleet clean >/dev/null 2>notes || fail "clean: $(tail -n 3 notes)"
    done
    printf '{"fleets":%d,"suspected":%d,"named":%d}\n' $fleets $suspected $named
    report alike "$fleets fleets of equal hosts: $suspected with a suspect, $named with one that is confirmed"
}
attack_deaths() { # hosts without power at moments spread over their work, until so many had whole repeats
    done_=0 had=0 whole=0 lost=0
    while [ $had -lt "${ROUNDS:-3}" ] && [ $done_ -lt $((5 * ${ROUNDS:-3})) ]; do
        tilemark fleet run web --site ssh.toml $long --detach --json >run.json 2>notes
        fleet=$(newest)
        # Each at a moment of its own, up to the end of its work.
        for name in n1 n2 n3; do
            done_=$((done_ + 1))
            sleep "$(awk -v n=$done_ 'BEGIN { x = n * 0.61803398875; printf "%.2f\n", (x - int(x)) * 6 }')"
            power off $name
        done
        for name in n1 n2 n3; do power on $name; done
        tilemark fleet collect --json >run.json 2>notes
        for name in n1 n2 n3; do
            place=$home/fleet-jobs/$fleet/$name/attempt-0
            there=$(ssh $name "cd $place/record 2>/dev/null && find points -name summary.json -exec sha256sum {} + | sort")
            said=$(ssh $name "grep -c 'repeat [0-9]* at 1 tile is discarded' $place/log 2>/dev/null")
            here=$(cd $home/fleets/"$fleet"/hosts/$name/attempt-0/record 2>/dev/null && find points -name summary.json -exec sha256sum {} + | sort)
            [ "$there" = "$here" ] || fail "death $done_: whole repeats of $name are not here"
            count=$(printf '%s' "$here" | grep -c .)
            # What the run had reported as measured is there.
            [ "${said:-0}" -le "$count" ] || fail "$name had reported $said repeats, and $count are here"
            whole=$((whole + count))
            case $(end_of run.json $name) in
            lost)
                lost=$((lost + 1))
                [ "$count" = 0 ] || had=$((had + 1))
                ;;
            unfit | trusted | not-trusted | cannot-tell) ;;
            never-started) [ -z "$there" ] || fail "$name has repeats and ended as never-started" ;;
            *) fail "$name ended as $(end_of run.json $name): $(because_of run.json $name)" ;;
            esac
            case $count in 0) words="no repeat" ;; 1) words="one repeat" ;; *) words="$count repeat" ;; esac
            case "$(end_of run.json $name)$(because_of run.json $name)" in lost*"$words"* | [!l]*) ;; *) fail "$name: $(because_of run.json $name)" ;; esac
        done
        tilemark fleet clean >/dev/null 2>notes || fail "clean: $(tail -n 3 notes)"
        # A person sees how far it is.
        echo "$done_ deaths, $had with whole repeats, $whole of those, $lost lost attempts" >&2
        [ -z "$failed" ] || break
    done
    [ $had -ge "${ROUNDS:-3}" ] || fail "only $had of $done_ deaths had whole repeats"
    printf '{"deaths":%d,"with_whole_repeats":%d,"whole_repeats":%d,"lost_attempts":%d}\n' $done_ $had $whole $lost
    report deaths "$done_ deaths, $had of them with whole repeats, $lost of attempts under way: $whole whole repeats, all of them collected"
}

# Of processes that are the engine's on a host: its script, the question that waits, and the ssh session. With their ended children.
ticks_there='for place in /proc/[0-9]*; do
    [ "${place#/proc/}" != $$ ] && [ "${place#/proc/}" != "$(cat /run/sshd.pid)" ] || continue
    read -r line <$place/stat 2>/dev/null || continue
    name=${line#*\(}; name=${name%\)*}
    case $name in sshd | sh | sleep) set -- ${line##*) }; echo "${place#/proc/} $((${12} + ${13} + ${14} + ${15}))" ;; esac
done; echo "at $(cut -d" " -f1 /proc/uptime)"'
repeats_in() { # the folder of a record, on n1
    ssh n1 "ls $1/points/00 | wc -l"
}
attack_cost() { # what a fleet run costs a host beside its measurement
    awk '/\[\[host\]\]/ { hosts++ } hosts < 2' ssh.toml >one.toml
    work="--on native --offline --tiles 1 --set measure.repeats=1 --set measure.warmup=1s --set measure.length=4s --seed 7"
    round=0
    while [ $round -lt "${ROUNDS:-3}" ]; do
        for what in $([ $((round % 2)) = 0 ] && echo plain fleet || echo fleet plain); do
            if [ $what = plain ]; then
                plain=$(ssh n1 "rm -rf /tmp/plain; began=\$(date +%s%N); tilemark run web $work --wait --output /tmp/plain >/dev/null 2>&1; echo \$(((\$(date +%s%N) - began) / 1000000))")
            else
                began=$(date +%s%N)
                tilemark fleet run web --site one.toml $work --json >run.json 2>notes
                fleet=$((($(date +%s%N) - began) / 1000000))
                measured_is run.json 1
            fi
        done
        there=$home/fleet-jobs/$(newest)/n1/attempt-0/record
        # Repeats that were discarded were measured again: only equal work is compared.
        [ "$(repeats_in "$there")" != "$(repeats_in /tmp/plain)" ] || printf '{"plain_ms":%d,"fleet_ms":%d}\n' "$plain" "$fleet"
        round=$((round + 1))
        # Ticks are 10 ms: only a long time shows so little. It lies within one question, which waits for two minutes.
        [ $round -le "${WINDOWS:-3}" ] || continue
        tilemark fleet run web --site one.toml --on native --offline --tiles 1 --set measure.repeats=1 --set measure.length=125s --json >run.json 2>notes &
        run=$!
        sleep 8
        ssh n1 "$ticks_there" >before
        sleep 100
        ssh n1 "$ticks_there" >after
        wait $run
        awk -v processors="$(nproc)" -v hertz="$(getconf CLK_TCK)" 'NR == FNR { if ($1 == "at") from = $2; else known[$1] = $2; next }
            $1 == "at" { to = $2; next } ($1 in known) { ticks += $2 - known[$1]; count++ }
            END { printf "{\"engine_processes\":%d,\"engine_processor_s\":%.2f,\"seconds\":%.1f,\"part\":%.6f}\n", count, ticks / hertz, to - from, ticks / hertz / (to - from) / processors }' before after
    done
    report cost "$round rounds"
}

failed=
for attack in $ATTACKS; do "attack_$attack"; done

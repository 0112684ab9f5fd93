# What is asked of a host. It comes through the carrier's standard input, behind the lines that set its variables:
# verb, nonce, fleet, name, program, version, seconds, attempt, job. The nonce marks where the answer begins and ends, so that
# what a login prints stays outside, and an answer that was cut is seen.
# Whatever that of the login is: root runs what is made here.
umask 022
home=${TILEMARK_HOME:-/var/lib/tilemark}
place=$home/fleet-jobs/$fleet/$name

part() { # name, file: its length and SHA-256 go before it
    printf 'part %s %s %s\n' "$1" "$(wc -c <"$2" | tr -d ' ')" "$(sha256sum <"$2" | cut -d' ' -f1)"
    cat "$2"
    echo
}
lives() { # the folder of an attempt
    { read -r boot && read -r pid && read -r start; } <"$1/began" 2>/dev/null || return 1
    [ "$boot" = "$(cat /proc/sys/kernel/random/boot_id)" ] || return 1
    [ "$(cut -d' ' -f22 "/proc/$pid/stat" 2>/dev/null)" = "$start" ]
}
is_beginning() { # A moment passes between the making of the folder and the work in it.
    [ -n "$(at_work "$1")" ] && return
    sleep 0.2
    [ -n "$(at_work "$1")" ] || lives "$1"
}
state() {
    for folder in "$place"/attempt-*; do
        [ -d "$folder" ] || continue
        number=${folder##*-}
        # Checked first: the job may write `began` while this runs, and would then pass neither test.
        if [ -e "$folder/began" ]; then not_begun=; else not_begun=1; fi
        if [ -e "$folder/exit" ]; then
            echo "attempt $number ended $(cat "$folder/exit")"
        elif lives "$folder" || { [ -n "$not_begun" ] && is_beginning "$folder"; }; then
            # Also one that was taken a moment ago, and has not noted that it began.
            echo "attempt $number running"
        elif [ -e "$folder/exit" ]; then
            echo "attempt $number ended $(cat "$folder/exit")"
        else
            echo "attempt $number lost"
        fi
    done
}
do_state() { state; }
do_status() { state; }
do_wait() {
    left=$seconds
    folder=$(running)
    [ -z "$folder" ] || { read -r _ && read -r pid; } <"$folder/began"
    # This runs beside the measurement: one program is started in 2 s, and the shell does the rest.
    while [ -n "$folder" ] && [ "$left" -gt 0 ] && [ ! -e "$folder/exit" ] && [ -d "/proc/$pid" ]; do
        sleep 2
        left=$((left - 2))
        # Where nobody is left to read it, this is its end.
        echo || return 1
    done
    state
}
no_room() { # Not every shell says why it cannot write.
    [ "$(df --output=avail "$home" | tail -n 1)" -ge 64 ] || echo "$home: No space left on device" >&2
    return 1
}
do_submit() {
    mkdir -p "$place" || { no_room; return 1; }
    [ ! -e "$place/cancelled" ] || { echo "the fleet run was cancelled" >&2; return 1; }
    if [ -e "$place/job.sh" ] && [ "$(cat "$place/job.sh")" != "$(printf '%s' "$job")" ]; then
        # That of another submitter who has the same id.
        return 78
    fi
    printf '%s' "$job" >"$place/job.new.$$" && sync "$place/job.new.$$" && mv "$place/job.new.$$" "$place/job.sh" || {
        rm -f "$place/job.new.$$"
        no_room
        return 1
    }
    if [ ! -e "$place/attempt-0" ]; then
        # The job outlives this connection. Where it is started twice, the second one finds the attempt taken and ends.
        if ! { [ -d /run/systemd/system ] && systemd-run --quiet --collect --unit "tilemark-fleet-$fleet-$name" \
            ${TILEMARK_HOME:+--setenv "TILEMARK_HOME=$TILEMARK_HOME"} sh "$place/job.sh"; } 2>/dev/null; then
            setsid sh "$place/job.sh" </dev/null >/dev/null 2>&1 &
        fi
    fi
    left=100
    until [ -e "$place/attempt-0/began" ]; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || { echo "the job does not begin" >&2; return 1; }
        sleep 0.1
    done
    state
}
at_work() { # the folder of an attempt: something that works in it
    find /proc -mindepth 2 -maxdepth 2 -name cwd -lname "$(cd "$1" && pwd -P)" 2>/dev/null
}
do_fetch() {
    folder=$place/attempt-$attempt
    archive=$folder.tar.gz
    if [ ! -e "$folder/exit" ]; then
        [ -d "$folder" ] || { echo "there is no attempt $attempt" >&2; return 1; }
        if lives "$folder"; then echo "attempt $attempt has not ended" >&2; return 1; fi
        # It was lost, with what it had finished. Its run, whose folder it is, may still close the record and restore the host.
        left=75
        while [ "$left" -gt 0 ] && [ -n "$(at_work "$folder")" ]; do
            sleep 0.2
            left=$((left - 1))
        done
    fi
    # One that had only been taken has begun meanwhile.
    if [ ! -e "$folder/exit" ]; then
        if lives "$folder"; then echo "attempt $attempt has not ended" >&2; return 1; fi
        # Nobody else closed it, so its archive is made again each time.
        archive=$place/lost-$attempt.tar.gz
        rm -f "$archive"
    fi
    # Of a host that lost power before its disk had it.
    if [ -e "$archive" ] && ! gzip -t "$archive" 2>/dev/null; then rm -f "$archive"; fi
    if [ ! -e "$archive" ]; then
        # Of a fetch that was cut.
        rm -f "$archive".*
        if ! { tar -C "$folder" --exclude=./room -czf "$archive.$$" . && sync "$archive.$$" && mv "$archive.$$" "$archive"; }; then
            rm -f "$archive.$$"
            no_room
            return 1
        fi
    fi
    part archive "$archive"
}
signal() { # signal, the folder of an attempt
    { read -r _ && read -r pid && read -r _; } <"$2/began" && lives "$2" && kill "-$1" "$pid"
}
running() { # the folder of the attempt that runs
    for folder in "$place"/attempt-*; do
        if [ -d "$folder" ] && [ ! -e "$folder/exit" ] && lives "$folder"; then
            echo "$folder"
            return
        fi
    done
}
recovered() { # the exit code of `recover`, and what it could not do or else its last words
    command -v "$program" >/dev/null || return 0
    said=$("$program" recover 2>&1)
    code=$?
    bad=$(printf '%s\n' "$said" | grep -E '^(error:|Not )' || printf '%s\n' "$said" | tail -n 1)
    echo "recovered $code $(printf '%s' "$bad" | tr '\n' ' ' | cut -c 1-1000)"
}
do_cancel() {
    # Behind this mark no attempt begins. Where the disk is full there is none, and nothing can begin either.
    mkdir -p "$place" && : >"$place/cancelled"
    left=$seconds
    while folder=$(running) && [ -n "$folder" ] && [ "$left" -gt 0 ]; do
        # As Ctrl-C: whole repeats are kept, and the host is restored. Then as a second one, and then by force.
        case $((seconds - left)) in
        0 | 40) signal TERM "$folder" ;;
        60)
            { read -r _ && read -r pid; } <"$folder/began"
            for child in $(cat "/proc/$pid/task/$pid/children" 2>/dev/null); do kill -KILL "$child"; done
            ;;
        70) signal KILL "$folder" ;;
        esac
        sleep 1
        left=$((left - 1))
        # Where nobody is left to read it, the work has been asked to end all the same.
        echo || return 1
    done
    # A sign of life every 2 s, as long as it takes.
    while sleep 2 >/dev/null 2>&1 && echo; do :; done &
    recovered
    kill $!
    state
}
do_clean() { # job: the attempts that are at home, with a space before and behind each
    [ -d "$place" ] || return 0
    for folder in "$place"/attempt-*; do
        [ -d "$folder" ] || continue
        number=${folder##*-}
        if [ ! -e "$folder/exit" ] && lives "$folder"; then
            echo "kept attempt $number is measuring"
            return 0
        fi
        case $job in *" $number "*) ;; *) echo "kept attempt $number is not collected" && return 0 ;; esac
    done
    rm -rf "$place" || return 1
    # Other hosts of the same fleet run may share the folder.
    rmdir "$home/fleet-jobs/$fleet" 2>/dev/null
    return 0
}
do_ask() {
    found=$(command -v "$program") || { echo "missing $program"; return 0; }
    echo "version $("$program" --version 2>/dev/null)"
    # What job.sh, the job of Slurm and this script use, and an old system has not.
    setpriv --pdeathsig INT true 2>/dev/null || echo "lacks \`setpriv --pdeathsig\` of util-linux 2.33"
    env --default-signal=INT true 2>/dev/null || echo "lacks \`env --default-signal\` of coreutils 8.31"
    command -v tar >/dev/null || echo "lacks \`tar\` of GNU tar"
    echo "hash $(sha256sum "$found" | cut -d' ' -f1)"
    for folder in "$home"/fleet-jobs/*/*/attempt-*; do
        if [ -d "$folder" ] && [ ! -e "$folder/exit" ] && lives "$folder"; then
            below=${folder#"$home"/fleet-jobs/}
            echo "busy ${below%%/*}"
        fi
    done
    folder=$(mktemp -d) || return 1
    # A shell that a signal ends does not run what it was to do at its exit: one whose reader is gone gets SIGPIPE.
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 1' PIPE HUP INT TERM
    sh -c "$job" plan "$folder" >"$folder/plan" 2>/dev/null
    echo "planned $?"
    part plan "$folder/plan"
    "$program" doctor --json >"$folder/doctor" 2>/dev/null
    part doctor "$folder/doctor"
}

printf '\ntilemark-fleet begin %s\n' "$nonce"
(if [ "$(id -u)" != 0 ]; then exit 77; fi; "do_$verb") </dev/null
printf '\ntilemark-fleet end %s %s\n' "$nonce" $?

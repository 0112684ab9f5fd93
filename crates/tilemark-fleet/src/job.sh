# The work of a host: one attempt of a fleet run. Variables are set before it: fleet, name, program, version, scenario_text, and
# flags, as words of a shell. Called `plan` it only plans, in the folder $1.
place=${TILEMARK_HOME:-/var/lib/tilemark}/fleet-jobs/$fleet/$name
umask 022
if [ "$0" = plan ]; then
    cd "$1" || exit 1
    [ -z "$scenario_text" ] || printf '%s' "$scenario_text" >scenario.toml
    eval "set -- $flags"
    exec "$program" plan "$@" --json
fi
folder=$place/attempt-${SLURM_RESTART_COUNT:-0}
child=
ended=
# A queue's SIGINT and our own SIGTERM end the run in order; also one that comes before it has begun.
trap 'ended=1; [ -z "$child" ] || kill -INT "$child"' INT TERM
mkdir -p "$place" || exit 1
[ ! -e "$place/cancelled" ] || exit 0
# Whoever is second finds that this attempt is taken: nothing is measured twice.
mkdir "$folder" 2>/dev/null || exit 0
cd "$folder" || exit 1
{ cat /proc/sys/kernel/random/boot_id && echo $$ && cut -d' ' -f22 /proc/$$/stat; } >began.new
sync began.new
mv began.new began
# Room for how it ended, where the disk fills meanwhile.
head -c 65536 /dev/zero >room 2>/dev/null && sync room
code=3
if [ -e "$place/cancelled" ]; then
    # Whoever cancels makes the mark first and looks for attempts then, so one of the two sees the other.
    echo "error: the fleet run was cancelled before the host began" >log
    code=130
elif ! command -v "$program" >/dev/null; then
    echo "error: there is no \`$program\` on this host" >log
elif [ "$("$program" --version 2>&1)" != "tilemark $version" ]; then
    {
        echo "error: this host has \`$("$program" --version 2>&1)\`, and the fleet was asked by tilemark $version"
        echo "  to fix: install that version there; what another version measured is confirmed by that one only"
    } >log
else
    [ -z "$scenario_text" ] || printf '%s' "$scenario_text" >scenario.toml
    "$program" recover >/dev/null 2>&1
    eval "set -- $flags"
    # A shell's `&` makes its child deaf to SIGINT. Without this script nobody would close the attempt, so the run ends with it.
    env --default-signal=INT setpriv --pdeathsig INT \
        "$program" "$@" --wait --output "$folder/record" >log 2>&1 </dev/null &
    child=$!
    [ -z "$ended" ] || kill -INT "$child"
    until wait "$child"; code=$?; [ ! -d "/proc/$child" ]; do :; done
fi
rm -f room
if [ "$code" != 0 ] && ! grep -q '^error: ' log 2>/dev/null && [ "$(df --output=avail . | tail -n 1)" -lt 64 ]; then
    printf 'error: the disk of %s is full\n  to fix: free some space there, then measure this host again\n' "$PWD" >>log
fi
echo "$code" >exit.new
sync exit.new log
mv exit.new exit
sync "$folder"

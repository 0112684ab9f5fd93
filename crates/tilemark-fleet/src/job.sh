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
mkdir -p "$place" || exit 1
# Whoever is second finds that this attempt is taken: nothing is measured twice.
mkdir "$folder" 2>/dev/null || exit 0
cd "$folder" || exit 1
{ cat /proc/sys/kernel/random/boot_id && echo $$ && cut -d' ' -f22 /proc/$$/stat; } >began.new
sync began.new
mv began.new began
code=3
if ! command -v "$program" >/dev/null; then
    echo "error: there is no \`$program\` on this host" >log
elif [ "$("$program" --version 2>&1)" != "tilemark $version" ]; then
    echo "error: this host has \`$("$program" --version 2>&1)\`, and the fleet was asked by tilemark $version" >log
else
    [ -z "$scenario_text" ] || printf '%s' "$scenario_text" >scenario.toml
    "$program" recover >/dev/null 2>&1
    # A shell's `&` makes its child deaf to SIGINT, which is how a queue ends a job in order.
    eval "set -- $flags"
    env --default-signal=INT "$program" "$@" --wait --output "$folder/record" >log 2>&1 </dev/null &
    child=$!
    trap 'kill -INT $child' INT TERM
    until wait $child; code=$?; [ ! -d /proc/$child ]; do :; done
fi
echo "$code" >exit.new
sync exit.new log
mv exit.new exit
sync "$folder"

# Runs the command.  $1: a word that nobody else knows; the rest: the command.
# Its streams are pipes, as a command's usually are; what comes out goes to a port each. A port takes bytes before the host
# has them, so the word shows the host that it has all.
end=$1
shift
pass_on() {
    cat "/run/lab-$1"
    printf %s "$end"
}
mkfifo /run/lab-output /run/lab-error
pass_on output >/dev/virtio-ports/output & output=$!
pass_on error >/dev/virtio-ports/error & error=$!
"$@" </dev/null >/run/lab-output 2>/run/lab-error
code=$?
wait $output $error
exit $code

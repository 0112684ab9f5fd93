//! Programs that get only the processor time that nothing else wants.

use std::{ffi::OsStr, process::Command};

/// Gives way to everything: by the class `SCHED_IDLE` (sched(7)) within a session, and by the session's own weight among sessions,
/// which the kernel shares processors between where `autogroup` is on. Ends with the thread that started it.
const IDLE: &str =
    "echo 19 2>/dev/null >/proc/self/autogroup; exec setpriv --pdeathsig TERM chrt --idle 0 \"$@\"";

/// A program that gives way to everything; it needs util-linux.
pub(crate) fn idle(program: &OsStr) -> Command {
    let mut command = Command::new("setsid");
    command.args(["sh", "-c", IDLE, "sh"]).arg(program);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_of_the_class_that_gives_way_and_has_its_arguments() {
        let script = OsStr::new("/bin/sh");
        let output =
            idle(script).args(["-c", "cat /proc/self/stat; echo \"$1\"", "sh", "a b"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (stat, argument) = text.split_once('\n').unwrap();
        // Field 41 of proc(5), the policy: SCHED_IDLE is 5 (linux/sched.h).
        let policy = stat.rsplit_once(") ").unwrap().1.split(' ').nth(41 - 3).unwrap();
        assert_eq!(
            (policy, argument.trim_end()),
            ("5", "a b"),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

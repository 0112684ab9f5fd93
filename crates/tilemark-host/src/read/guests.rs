//! Guests that already run, whoever started them: they take processors and memory from every figure.

use tilemark_plan::facts::{Fact, RunningGuest};

use super::list::missing;
use crate::view::HostView;

/// File names of programs that are guests. A process's own name is cut at 15 characters, so the command line decides.
const PROGRAMS: [&str; 5] = ["qemu-kvm", "kvm", "firecracker", "cloud-hypervisor", "crosvm"];

pub(crate) fn running_guests(host: &dyn HostView) -> Fact<Vec<RunningGuest>> {
    match host.list("/proc") {
        Err(error) => missing("/proc", error),
        Ok(names) => {
            let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
            pids.sort_unstable();
            Fact::Value(pids.into_iter().filter_map(|pid| guest(host, pid)).collect())
        }
    }
}

fn guest(host: &dyn HostView, pid: u32) -> Option<RunningGuest> {
    // A process may end while we look: then it is no running guest.
    let command_line = host.read(&format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<&str> = command_line.split('\0').collect();
    let program = words.first()?.rsplit('/').next()?;
    if !program.starts_with("qemu-system-") && !PROGRAMS.contains(&program) {
        return None;
    }
    Some(RunningGuest { pid, program: program.to_owned(), name: guest_name(&words) })
}

/// `-name web`, `-name guest=web,debug-threads=on`, in any order.
fn guest_name(words: &[&str]) -> Fact<String> {
    let mut values =
        words.iter().zip(words.iter().skip(1)).filter(|(flag, _)| matches!(**flag, "-name" | "--name"));
    let name = values.find_map(|(_, value)| name_in(value));
    name.map_or_else(|| Fact::Missing("its command line has no -name".into()), Fact::Value)
}

/// QEMU writes a comma of a name twice; only the first part may be a value without its key.
fn name_in(value: &str) -> Option<String> {
    let value = value.replace(",,", "\0");
    let first = value.split(',').next().filter(|first| !first.contains('='));
    let name = value.split(',').find_map(|part| part.strip_prefix("guest=")).or(first)?;
    Some(name.replace('\0', ","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_both_notations() {
        assert_eq!(guest_name(&["q", "-name", "guest=web,debug-threads=on"]), Fact::Value("web".into()));
        assert_eq!(guest_name(&["q", "-name", "web"]), Fact::Value("web".into()));
        for value in ["debug-threads=on,guest=web", "process=x,guest=web,debug-threads=on"] {
            assert_eq!(guest_name(&["q", "-name", value]), Fact::Value("web".into()));
        }
        assert_eq!(guest_name(&["q", "-name", "guest=a,,b,process=x"]), Fact::Value("a,b".into()));
        assert!(guest_name(&["q", "-name", "debug-threads=on"]).value().is_none());
        assert!(guest_name(&["q", "-S"]).value().is_none());
    }
}

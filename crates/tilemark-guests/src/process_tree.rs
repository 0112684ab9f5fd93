//! Processes below a process.

use std::{collections::BTreeMap, fs};
use tilemark_sys::files::read_kernel_text;

/// A process and all its descendants now, itself first.
pub fn processes_below(first: u32) -> Vec<u32> {
    ProcessTree::now().below(first)
}

/// Every process's children, at one moment.
pub(crate) struct ProcessTree(BTreeMap<u32, Vec<u32>>);

impl ProcessTree {
    /// As it is now. One pass over /proc.
    pub(crate) fn now() -> Self {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let Ok(stat) = read_kernel_text(&entry.path().join("stat")) else { continue };
            if let Some(parent) = parent_in(&stat) {
                children.entry(parent).or_default().push(pid);
            }
        }
        Self(children)
    }

    /// `first` and all its descendants, `first` first.
    pub(crate) fn below(&self, first: u32) -> Vec<u32> {
        let mut all = vec![first];
        let mut next = 0;
        while let Some(pid) = all.get(next) {
            // A process that began while the others were read may seem to be its own ancestor.
            let children = self.0.get(pid).into_iter().flatten().filter(|child| !all.contains(child));
            let children: Vec<u32> = children.copied().collect();
            all.extend(children);
            next += 1;
        }
        all
    }
}

/// The parent in a line of /proc/PID/stat. The name before it may hold anything, parentheses too.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, kill_process};
    use std::{
        ffi::OsStr,
        io::{BufRead, BufReader},
        os::unix::ffi::OsStrExt,
        process::{Command, Stdio},
    };

    #[test]
    fn a_name_with_parentheses_does_not_hide_the_parent() {
        assert_eq!(parent_in("12 (a) b) c) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in("12 (a"), None);
    }

    #[test]
    fn one_tree_knows_many_processes_and_ends_where_numbers_were_reused() {
        let tree = ProcessTree(BTreeMap::from([(1, vec![2, 5]), (2, vec![3]), (3, vec![4]), (4, vec![2])]));
        assert_eq!(tree.below(2), [2, 3, 4]);
        assert_eq!(tree.below(1), [1, 2, 5, 3, 4]);
        assert_eq!(tree.below(9), [9]);
    }

    #[test]
    fn a_child_of_this_process_is_below_it() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let all = ProcessTree::now().below(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(all[0], std::process::id());
        assert!(all.contains(&child.id()));
    }

    #[test]
    fn a_process_that_names_itself_with_any_bytes_hides_neither_itself_nor_its_children() {
        // The name is the one of the file that was started.
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(OsStr::from_bytes(b"\xff\xfe) S 1"));
        std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
        let script = "sleep 1000 & echo $!; wait";
        let mut shell = Command::new(&program).args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let child: u32 = line.trim().parse().unwrap();
        let name = fs::read(format!("/proc/{}/comm", shell.id())).unwrap();
        let all = ProcessTree::now().below(std::process::id());
        kill_process(Pid::from_raw(child as i32).unwrap(), Signal::KILL).unwrap();
        shell.wait().unwrap();
        assert!(name.starts_with(b"\xff"), "{name:?}");
        assert!(all.contains(&shell.id()) && all.contains(&child), "{all:?}");
    }
}

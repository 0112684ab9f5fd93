//! Processes below a process.

use std::{collections::BTreeMap, fs};

/// `first` and all its descendants now, `first` first. One pass over /proc.
pub(crate) fn below(first: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some(parent) = parent_in(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut all = vec![first];
    let mut next = 0;
    while let Some(&pid) = all.get(next) {
        all.extend(children.remove(&pid).unwrap_or_default());
        next += 1;
    }
    all
}

/// The parent in a line of /proc/PID/stat. The name before it may hold anything, parentheses too.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_hide_the_parent() {
        assert_eq!(parent_in("12 (a) b) c) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in("12 (a"), None);
    }

    #[test]
    fn a_child_of_this_process_is_below_it() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let all = below(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(all[0], std::process::id());
        assert!(all.contains(&child.id()));
    }
}

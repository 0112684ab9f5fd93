//! Controllers that the tree of control groups gives to the groups below it: the memory controller limits native twins.

use std::fs;
use std::path::Path;

use super::{Form, Held, Setting};
use crate::cgroup::Group;

/// The controller that limits a group's memory.
pub const MEMORY: &str = "memory";

/// The tree gives this controller to the groups below it.
pub fn given(tree: &Group, controller: &str) -> Setting {
    let name = format!("{controller} controller of the control groups");
    let file = tree.path().join("cgroup.subtree_control");
    Setting::file(name, file, Form::Member(controller.to_owned()), controller)
}

/// What a run of an older version noted where it had this tree give the memory controller.
pub fn noted(tree: &Group) -> Held {
    Held { setting: given(tree, MEMORY), found: String::new(), network: None, is_whole: false }
}

/// The groups right below the tree that need the controller, since they give it to groups of their own: the kernel takes it from none
/// of them (cgroup-v2.rst, "Enabling and Disabling"). Their names, sorted.
pub fn users(setting: &Setting) -> Vec<String> {
    let gives = |name: &String| {
        Group::at(tree(setting).join(name)).enabled().is_ok_and(|given| given.contains(&setting.value))
    };
    below(tree(setting)).into_iter().filter(gives).collect()
}

/// Files of a controller that bound a group, with what is in them where they do not.
const LIMITS: [(&str, &str, &str); 7] = [
    ("cpuset", "cpuset.cpus", ""),
    ("cpuset", "cpuset.mems", ""),
    (MEMORY, "memory.max", "max"),
    (MEMORY, "memory.high", "max"),
    (MEMORY, "memory.low", "0"),
    (MEMORY, "memory.min", "0"),
    (MEMORY, "memory.swap.max", "max"),
];

/// The first limit of a group right below the tree that would be lost with the controller: `machine.slice has cpuset.cpus = 0-3`. Groups of
/// ours have theirs for as long as they hold it.
pub(super) fn limit_of_others(setting: &Setting) -> Option<String> {
    if !setting.path.ends_with("cgroup.subtree_control") {
        return None;
    }
    let limits = LIMITS.iter().filter(|(controller, ..)| *controller == setting.value);
    let of_group = |name: String| {
        limits.clone().find_map(|(_, file, default)| {
            let text = fs::read_to_string(tree(setting).join(&name).join(file)).ok()?;
            let value = text.trim();
            (value != *default).then(|| format!("{name} has {file} = {value}"))
        })
    };
    below(tree(setting)).into_iter().filter(|name| !name.starts_with(OURS)).find_map(of_group)
}

/// The beginning of the names of our groups.
const OURS: &str = "tilemark";

fn tree(setting: &Setting) -> &Path {
    setting.path.parent().unwrap_or(Path::new(""))
}

/// What is in a folder, sorted.
fn below(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

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
    let tree = setting.path.parent().unwrap_or(Path::new(""));
    let gives = |group: &Group| group.enabled().is_ok_and(|given| given.contains(&setting.value));
    let entries = fs::read_dir(tree).into_iter().flatten().flatten();
    let below = entries.filter(|entry| gives(&Group::at(entry.path())));
    let mut names: Vec<String> =
        below.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

//! Control groups: how fast processes move between them, and processors that one group has for itself.

use super::request::{LEAVE_OUT, Request};
use crate::cgroup::Group;
use crate::error::HostError;
use crate::setting::{Reach, Setting, memory_controller, reach};
use tilemark_units::ranges;

/// The group that isolated processors belong to.
const ISOLATED_GROUP: &str = "tilemark-isolated";

/// Whether moving processes between control groups is fast.
pub(super) fn fast_moves(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let reach = Reach::MountOption { mount: tree(request)?, option: "favordynmods".to_owned() };
    Ok(vec![Setting::by(request.key, reach, request.value)])
}

pub(super) fn isolated(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let processors = request.processors()?;
    if processors.len() == request.root.processors().len() {
        return Err(request.bad("some of the processors: the others are for everything else"));
    }
    let tree = Group::at(tree(request)?);
    let has_controller = tree.controllers()?.iter().any(|name| name == reach::CONTROLLER);
    if !has_controller {
        let why = "its version 2 tree of control groups has no cpuset controller";
        return Err(request.absent(why, "boot with `cgroup_no_v1=all`, or leave it out"));
    }
    let group = tree.path().join(ISOLATED_GROUP);
    Ok(vec![
        memory_controller::given(&tree, reach::CONTROLLER),
        Setting::by(request.key, Reach::Partition { group }, &ranges(&processors)),
    ])
}

fn tree(request: &Request<'_>) -> Result<std::path::PathBuf, HostError> {
    let tree = request.root.control_groups().filter(|_| request.root.is_real());
    tree.ok_or_else(|| request.absent("no version 2 tree of control groups is mounted", LEAVE_OUT))
}

//! Knobs of the scheduler that a kernel has in debugfs.

use super::{
    accepts::Accepts,
    entry::{Danger, Known, Place},
    request::{LEAVE_OUT, Request},
};
use crate::error::HostError;
use crate::setting::{Form, Setting};

const FOLDER: &str = "/sys/kernel/debug/sched";

const fn known(key: &'static str, about: &'static str) -> Known {
    Known {
        key,
        about,
        source: "kernel/sched/debug.c (debugfs)",
        danger: Danger::Stability,
        place: Place::Host,
        accepts: Accepts::NUMBER,
        settings: knob,
    }
}

pub(super) const KNOWN: &[Known] = &[
    known("sched.base_slice_ns", "nanoseconds that a process runs before another may; kernels from 6.6"),
    known("sched.migration_cost_ns", "nanoseconds for which a process that ran counts as still in the cache"),
    known("sched.nr_migrate", "processes that one balancing may move"),
    known("sched.min_granularity_ns", "the least nanoseconds that a process runs; gone since 6.6"),
    known("sched.latency_ns", "nanoseconds in which each process runs once; gone since 6.6"),
    known(
        "sched.wakeup_granularity_ns",
        "how much a process that wakes must lack to run at once; gone since 6.6",
    ),
];

fn knob(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    if !request.root.path(FOLDER).exists() {
        let remedy = "mount it: mount -t debugfs none /sys/kernel/debug";
        return Err(request.absent(format!("there is no {FOLDER}"), remedy));
    }
    let path = format!("{FOLDER}/{}", request.key.trim_start_matches("sched."));
    if !request.root.path(&path).exists() {
        let known = request.root.names(FOLDER).join(", ");
        let why = format!("its scheduler has no such knob (kernel 6.6 replaced it: EEVDF); it has {known}");
        return Err(request.absent(why, LEAVE_OUT));
    }
    request.file(&path, Form::Whole)
}

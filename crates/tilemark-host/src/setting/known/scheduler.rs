//! Knobs of the scheduler that a kernel has in debugfs.

use super::request::{LEAVE_OUT, Request};
use crate::error::HostError;
use crate::setting::{Form, Setting};

const FOLDER: &str = "/sys/kernel/debug/sched";

pub(super) fn knob(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    if !request.root.path(FOLDER).exists() {
        let remedy = "mount it: mount -t debugfs none /sys/kernel/debug";
        return Err(request.absent(format!("there is no {FOLDER}"), remedy));
    }
    let path = format!("{FOLDER}/{}", request.name());
    if !request.root.path(&path).exists() {
        let known = request.root.names(FOLDER).join(", ");
        let why = format!("its scheduler has no such knob (kernel 6.6 replaced it: EEVDF); it has {known}");
        return Err(request.absent(why, LEAVE_OUT));
    }
    request.file(&path, Form::Whole)
}

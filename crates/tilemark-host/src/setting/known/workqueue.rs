//! Work of the kernel that belongs to no processor.

use super::{
    accepts::Accepts,
    entry::{Danger, Known, Place},
};
use crate::setting::Form;

pub(super) const KNOWN: &[Known] = &[Known {
    key: "workqueue.cpumask",
    about: "the processors on which the kernel does work that is bound to none",
    source: "Documentation/core-api/workqueue.rst",
    danger: Danger::None,
    place: Place::Host,
    accepts: Accepts::Processors,
    settings: |request| {
        request.file_with("/sys/devices/virtual/workqueue/cpumask", Form::Mask, &request.mask()?)
    },
}];

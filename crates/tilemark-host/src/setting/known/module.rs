//! Parameters of modules. One that can only be given when the module is loaded is refused, with how to do that.

use super::{
    accepts::Accepts,
    entry::{Danger, Known, Place},
    request::Request,
};
use crate::error::HostError;
use crate::setting::{Form, Setting};

pub(super) const KNOWN: &[Known] = &[
    Known {
        key: "kvm.halt_poll_ns",
        about: "the longest time in nanoseconds that KVM waits for a guest's processor to wake before it lets the host's sleep",
        source: "Documentation/virt/kvm/halt-polling.rst",
        danger: Danger::None,
        place: Place::Host,
        accepts: Accepts::NUMBER,
        settings: |request| parameter(request, "kvm", "halt_poll_ns"),
    },
    Known {
        key: "kvm.nx_huge_pages",
        about: "whether KVM splits huge pages that guests execute, which keeps a guest from stopping the host on processors with the fault \
                of iTLB multihit",
        source: "Documentation/admin-guide/hw-vuln/multihit.rst",
        danger: Danger::Security,
        place: Place::Host,
        accepts: Accepts::Text,
        settings: split_pages,
    },
    Known {
        key: "module.{module}.{parameter}",
        about: "a parameter of a module",
        source: "modinfo(8) of the module",
        danger: Danger::Stability,
        place: Place::Host,
        accepts: Accepts::Text,
        settings: named,
    },
];

/// `kvm.nx_huge_pages` for `module.kvm.nx_huge_pages`, where the catalogue has a line for it. The kernel takes a hyphen for an underscore.
pub(super) fn one_form(key: &str) -> Option<String> {
    let (module, parameter) = key.strip_prefix("module.")?.split_once('.')?;
    // modprobe takes both, and the folder has the one.
    let module = module.replace('-', "_");
    let own = format!("{module}.{}", parameter.replace('-', "_"));
    let is_own = KNOWN.iter().any(|known| known.key == own);
    Some(if is_own { own } else { format!("module.{module}.{parameter}") })
}

/// The parameter that a key names.
pub(super) fn named(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let (module, name) =
        request.key.strip_prefix("module.").and_then(|key| key.split_once('.')).unwrap_or_default();
    parameter(request, module, name)
}

/// `never` is kept by the kernel until the module is loaded again, so nothing could restore what was there.
fn split_pages(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    match request.value {
        "on" | "off" => parameter(request, "kvm", "nx_huge_pages"),
        _ => Err(request.bad("on or off; `never` is one way: the kernel keeps it until kvm is loaded again")),
    }
}

fn parameter(request: &Request<'_>, module: &str, parameter: &str) -> Result<Vec<Setting>, HostError> {
    if !request.root.path(&format!("/sys/module/{module}")).exists() {
        let why = format!("the module {module} is not loaded");
        return Err(request.absent(why, "load it with modprobe, or leave the setting out"));
    }
    let path = format!("/sys/module/{module}/parameters/{parameter}");
    let now = request.root.text(&path).unwrap_or_default();
    request.file_with(&path, Form::Whole, &as_it_reads(request.value, &now))
}

/// A switch is read as Y or N, and taken in many ways.
fn as_it_reads(value: &str, now: &str) -> String {
    let is_switch = matches!(now, "Y" | "N");
    match value {
        "1" | "on" | "y" | "Y" if is_switch => "Y".to_owned(),
        "0" | "off" | "n" | "N" if is_switch => "N".to_owned(),
        other => other.to_owned(),
    }
}

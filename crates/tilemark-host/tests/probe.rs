//! The probe on this host, whatever it is: it ends, and its verdict agrees with its figures.
#![allow(missing_docs, clippy::unwrap_used)]

use tilemark_host::accelerator::{PLAIN_RATIO_MAX, judge};
use tilemark_plan::facts::AcceleratorVerdict;

#[test]
fn the_verdict_follows_from_what_was_timed() {
    let found = judge(&tilemark_sys::kvm::probe());
    println!("{:?}: {}\n{:#?}", found.verdict, found.reason, found.figures);
    assert!(!found.reason.is_empty());
    match found.verdict {
        AcceleratorVerdict::Usable => {
            let figures = found.figures.expect("usable only with figures");
            let guest_ns = figures.plain_guest_ns.value().expect("usable only with guest work timed");
            assert!(guest_ns / figures.plain_host_ns <= PLAIN_RATIO_MAX);
        }
        AcceleratorVerdict::TooSlow => assert!(found.figures.is_some()),
        AcceleratorVerdict::Absent => {
            assert!(!std::path::Path::new("/dev/kvm").exists() || found.figures.is_none())
        }
        AcceleratorVerdict::Unknown => {}
    }
}

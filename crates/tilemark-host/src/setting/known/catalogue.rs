//! Reads `catalogue.txt`.

use std::sync::LazyLock;

use super::{
    accepts::Accepts,
    block, cgroup, cpu,
    entry::{Danger, Known, Place},
    huge_pages, interrupt, ksm, libvirt, limit, module, nic,
    request::Make,
    reversible, scheduler, service, sysctl, transparent,
};
use crate::setting::NvmeCoalescing;

const TEXT: &str = include_str!("catalogue.txt");

/// Who makes settings, by the names that the catalogue has for them.
const MAKERS: [(&str, Make); 33] = [
    ("sysctl", sysctl::sysctl),
    ("pair", sysctl::with_its_pair),
    ("bridge", sysctl::bridge),
    ("reversible", reversible::reversible),
    ("module", module::named),
    ("signatures", module::signatures),
    ("split-pages", module::split_pages),
    ("thp", transparent::enabled),
    ("thp-defrag", transparent::defrag),
    ("khugepaged", transparent::khugepaged),
    ("huge-pages", huge_pages::pages),
    ("ksm", ksm::switch),
    ("ksm-parameter", ksm::parameter),
    ("block", block::queues),
    ("nvme-requests", |request| block::coalescing(request, NvmeCoalescing::Requests)),
    ("nvme-usecs", |request| block::coalescing(request, NvmeCoalescing::Usecs)),
    ("governor", cpu::governor),
    ("energy-preference", cpu::energy_preference),
    ("idle-latency", cpu::idle_latency),
    ("turbo", cpu::turbo),
    ("threads", cpu::threads),
    ("irq", interrupt::of_device),
    ("irq-default", |request| request.mask_file("/proc/irq/default_smp_affinity")),
    ("nic-queues", nic::queues),
    ("nic-queue-length", nic::queue_length),
    ("ethtool", nic::by_ethtool),
    ("workqueue", |request| request.mask_file("/sys/devices/virtual/workqueue/cpumask")),
    ("favordynmods", cgroup::fast_moves),
    ("cpuset", cgroup::isolated),
    ("limit", limit::limit),
    ("libvirt", libvirt::limit),
    ("service", service::service),
    ("scheduler", scheduler::knob),
];

pub(super) static KNOWN: LazyLock<Vec<Known>> =
    LazyLock::new(|| read().expect("the catalogue is part of the program"));

/// All entries, or the line that is none.
fn read() -> Result<Vec<Known>, &'static str> {
    let (mut known, mut group) = (Vec::new(), None);
    for line in TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with('[') {
            group = Some(head(line).ok_or(line)?);
        } else {
            known.push(group.and_then(|group| entry(line, group)).ok_or(line)?);
        }
    }
    Ok(known)
}

/// What `[maker, place, accepts, source]` has for all entries below it.
fn head(line: &'static str) -> Option<Known> {
    let mut parts = line.strip_prefix('[')?.strip_suffix(']')?.splitn(4, ", ");
    let (maker, place, accepts, source) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let (_, settings) = MAKERS.into_iter().find(|(name, _)| *name == maker)?;
    let (place, accepts) = (Place::called(place)?, Accepts::called(accepts)?);
    Some(Known { key: "", about: "", source, danger: Danger::None, place, accepts, settings })
}

/// `danger key: what it does`.
fn entry(line: &'static str, head: Known) -> Option<Known> {
    let (danger, rest) = line.split_once(' ')?;
    let (key, about) = rest.split_once(": ")?;
    Some(Known { key, about, danger: Danger::called(danger)?, ..head })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The keys whose settings are made by the function of this name.
    fn keys_of(maker: &str) -> BTreeSet<&'static str> {
        let sections = TEXT.split("\n[").filter(|section| section.split(',').next() == Some(maker));
        let entries =
            sections.flat_map(|section| section.lines().skip(1)).filter(|line| !line.starts_with('#'));
        entries.filter_map(|line| line.split_once(": ")?.0.split(' ').nth(1)).collect()
    }

    #[test]
    fn every_reversible_key_has_its_values() {
        let has_values: BTreeSet<&str> = reversible::REVERSIBLE.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys_of("reversible"), has_values);
    }

    #[test]
    fn modules_other_than_kvm_have_no_keys_without_the_word_module() {
        let keys = keys_of("module").into_iter().chain(keys_of("split-pages"));
        let own: Vec<&str> = keys.filter(|key| !key.starts_with("module.")).collect();
        assert!(own.len() > 1 && own.iter().all(|key| key.starts_with("kvm.")), "{own:?}");
    }

    #[test]
    fn every_line_is_read_and_every_maker_makes_something() {
        let keys = TEXT.lines().filter(|line| line.contains(": ") && !line.starts_with(['#', '['])).count();
        assert_eq!(read().unwrap().len(), keys);
        for (maker, _) in MAKERS {
            assert!(TEXT.contains(&format!("\n[{maker}, ")), "{maker}");
        }
    }
}

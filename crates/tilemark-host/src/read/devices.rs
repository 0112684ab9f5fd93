//! Kernel devices, IOMMU groups, energy counters, loop devices.

use std::collections::BTreeMap;

use tilemark_plan::facts::{Devices, Fact, Iommu, IommuKind, LoopDevices};

use super::list::{missing, text};
use crate::view::HostView;

const IOMMU_GROUPS: &str = "/sys/kernel/iommu_groups";
const POWER_ZONES: &str = "/sys/class/powercap";
const BLOCK_DEVICES: &str = "/sys/block";

pub(super) fn devices(host: &dyn HostView) -> Devices {
    let device = |path: &str| match host.device(path) {
        Ok(()) => Fact::Value(path.to_owned()),
        Err(error) => missing(path, error),
    };
    Devices {
        tun: device("/dev/net/tun"),
        vhost_net: device("/dev/vhost-net"),
        vhost_vsock: device("/dev/vhost-vsock"),
        vfio: device("/dev/vfio/vfio"),
        kvm: device("/dev/kvm"),
    }
}

pub(super) fn iommu(host: &dyn HostView) -> Fact<Iommu> {
    let groups = match host.list(IOMMU_GROUPS) {
        Err(error) => return missing(IOMMU_GROUPS, error),
        Ok(groups) => groups,
    };
    let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
    for group in &groups {
        if let Fact::Value(kind) = text(host, &format!("{IOMMU_GROUPS}/{group}/type")) {
            *kinds.entry(kind).or_insert(0) += 1;
        }
    }
    Fact::Value(Iommu {
        groups: groups.len() as u32,
        kinds: kinds.into_iter().map(|(kind, groups)| IommuKind { kind, groups }).collect(),
    })
}

/// Names of the zones whose counter can be read: since 2020 (CVE-2020-8694) mostly by root only.
pub(super) fn energy_zones(host: &dyn HostView) -> Fact<Vec<String>> {
    let zones = match host.list(POWER_ZONES) {
        Err(error) => return missing(POWER_ZONES, error),
        Ok(zones) => zones,
    };
    let mut readable = Vec::new();
    let mut refused = None;
    for zone in zones.iter().filter(|zone| zone.contains("rapl:")) {
        match host.read(&format!("{POWER_ZONES}/{zone}/energy_uj")) {
            Ok(_) => readable
                .push(text(host, &format!("{POWER_ZONES}/{zone}/name")).value().unwrap_or(zone).clone()),
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if readable.is_empty() => missing(POWER_ZONES, error),
        None if readable.is_empty() => missing(POWER_ZONES, "no RAPL zone"),
        _ => Fact::Value(readable),
    }
}

pub(super) fn loop_devices(host: &dyn HostView) -> Fact<LoopDevices> {
    if let Err(error) = host.device("/dev/loop-control") {
        return missing("/dev/loop-control", error);
    }
    match host.list(BLOCK_DEVICES) {
        Err(error) => missing(BLOCK_DEVICES, error),
        Ok(names) => {
            let loops: Vec<&String> = names.iter().filter(|name| name.starts_with("loop")).collect();
            let used =
                |name: &&&String| host.read(&format!("{BLOCK_DEVICES}/{name}/loop/backing_file")).is_ok();
            let in_use = loops.iter().filter(used).count() as u32;
            Fact::Value(LoopDevices { existing: loops.len() as u32, in_use })
        }
    }
}

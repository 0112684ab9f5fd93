//! Which points and sides differ in QEMU, and keys of QEMU's that change nothing where none runs.

use crate::{
    plan::{Backend, Plan, Point, SideName},
    problem::Problem,
    request::Request,
    scenario::{QemuTable, Scenario},
};

/// Whether a key changes QEMU only, so that a native twin has nothing of it.
fn is_of_qemu(key: &str) -> bool {
    let is_of_device = |own: &str| match own.split_once('.') {
        Some((_, own)) => {
            own == "net"
                || own.starts_with("net.")
                || own.strip_prefix("disk.").is_some_and(|own| ["cache", "aio", "iothread"].contains(&own))
        }
        None => false,
    };
    key == "qemu" || key.starts_with("qemu.") || key.strip_prefix("guest.").is_some_and(is_of_device)
}

/// What was asked of QEMU where no guest runs in it, by a flag, a side or something that varies. The file itself may say what guests of
/// other backends have.
pub(crate) fn ignored(request: &Request, scenario: &Scenario) -> Vec<Problem> {
    let mut runs = request.backends.iter().chain(&request.demonstrate);
    if request.backends.is_empty() || runs.any(|backend| *backend != Backend::Native) {
        return Vec::new();
    }
    let of_sides = request.sides.iter().flat_map(|sides| sides.a.keys().chain(sides.b.keys()));
    let varied = scenario.vary.values().map(|vary| &vary.key);
    let mut keys: Vec<&String> = request.settings.keys().chain(of_sides).chain(varied).collect();
    keys.sort();
    keys.dedup();
    let problem = |key: &&String| {
        Problem::new(
            format!("`{key}` changes nothing natively: no QEMU runs there"),
            "leave it out, or measure guests with `--on kvm` or `--on emulated`",
        )
    };
    keys.iter().filter(|key| is_of_qemu(key)).map(problem).collect()
}

impl Plan {
    /// The QEMUs of the plan's points, each once, with the backend.
    pub fn qemus(&self) -> Vec<(Backend, &QemuTable)> {
        let mut found: Vec<(Backend, &QemuTable)> = Vec::new();
        for Point { backend, qemu, .. } in &self.points {
            if *backend != Backend::Native && !found.contains(&(*backend, qemu)) {
                found.push((*backend, qemu));
            }
        }
        found
    }

    /// The first points of the two sides, where there are sides that differ in QEMU and in nothing else.
    pub fn sides_of_qemu(&self) -> Option<(&Point, &Point)> {
        let of = |side| self.points.iter().find(|point| point.side == Some(side));
        let (a, b) = (of(SideName::A)?, of(SideName::B)?);
        let elsewhere = Point { index: a.index, side: a.side, qemu: a.qemu.clone(), ..b.clone() };
        (a.qemu != b.qemu && *a == elsewhere).then_some((a, b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_devices_are_qemus_and_others_of_the_guest_are_not() {
        for key in [
            "guest.db.disk.cache",
            "guest.db.disk.iothread",
            "guest.db.net.queues",
            "guest.db.net",
            "qemu.firmware",
        ] {
            assert!(is_of_qemu(key), "{key}");
        }
        for key in ["guest.db.disk.size", "guest.db.memory", "guest.net.memory", "guest.net"] {
            assert!(!is_of_qemu(key), "{key}");
        }
    }
}

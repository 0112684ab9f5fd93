//! What guests used while they were measured, those with one name in the tile together.

use super::host_watch::HostRead;
use std::collections::HashMap;
use tilemark_guests::port_name;
use tilemark_host::telemetry::{Second, WatchedSecond};
use tilemark_plan::plan::{GuestPlan, Point};
use tilemark_record::summary::GuestUse;

/// What each guest of the tile used, in the order of the tile. Guests of which nothing was read are left out.
pub(super) fn of(point: &Point, read: &HostRead) -> Vec<GuestUse> {
    let mut uses: Vec<GuestUse> = Vec::new();
    let used = used_by_name(&read.seconds);
    for guest in &point.guests {
        let Some(own) = used.get(guest.name.as_str()) else { continue };
        let Some(processors) = own.processors.mean() else { continue };
        let port = read.whole.as_deref().and_then(|whole| port_bytes(whole, guest));
        let name = guest.name_in_tile();
        let place = uses.iter().position(|known| known.guest == name).unwrap_or_else(|| {
            uses.push(nothing_yet(name, guest));
            uses.len() - 1
        });
        let all = &mut uses[place];
        let before = f64::from(all.guests);
        let joined = |mean: f64, value: f64| (mean * before + value) / (before + 1.0);
        let joined_known = |mean: Option<f64>, value: Option<f64>| Some(joined(mean?, value?));
        all.processors = joined(all.processors, processors);
        all.processors_max = all.processors_max.max(processors);
        all.disk_bytes_per_s = joined_known(all.disk_bytes_per_s, own.disk_bytes.mean());
        all.network_bytes_per_s = joined_known(all.network_bytes_per_s, port);
        all.guests += 1;
    }
    uses
}

fn nothing_yet(name: &str, guest: &GuestPlan) -> GuestUse {
    GuestUse {
        guest: name.to_owned(),
        role: guest.role,
        guests: 0,
        vcpus: guest.vcpus,
        processors: 0.0,
        processors_max: 0.0,
        disk_bytes_per_s: Some(0.0),
        network_bytes_per_s: Some(0.0),
    }
}

/// A rate over the seconds of which it is known, each by its length.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    sum: f64,
    seconds: f64,
}

impl Rate {
    fn add(&mut self, amount: Option<f64>, seconds: f64) {
        if let Some(amount) = amount {
            self.sum += amount;
            self.seconds += seconds;
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.sum / self.seconds)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Used {
    processors: Rate,
    disk_bytes: Rate,
}

/// Second by second: of a service whose processes come and go, the whole is not known.
fn used_by_name(seconds: &[Second]) -> HashMap<&str, Used> {
    let mut used: HashMap<&str, Used> = HashMap::new();
    for second in seconds {
        for watched in second.watched.iter() {
            let own = used.entry(watched.name.as_str()).or_default();
            own.processors.add(watched.threads_used.map(|threads| threads * second.seconds), second.seconds);
            own.disk_bytes.add(disk_bytes(watched), second.seconds);
        }
    }
    used
}

fn disk_bytes(watched: &WatchedSecond) -> Option<f64> {
    Some((watched.read_bytes? + watched.written_bytes?) as f64)
}

fn port_bytes(whole: &Second, guest: &GuestPlan) -> Option<f64> {
    let name = port_name(guest.index);
    let port = whole.interfaces.iter().find(|port| port.name == name)?;
    Some((port.received_bytes + port.sent_bytes) as f64 / whole.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{TILE, ladder, plan_of, quiet_guest, quiet_second};
    use tilemark_host::telemetry::InterfaceSecond;

    #[test]
    fn guests_of_one_name_are_put_together_over_tiles_and_seconds() {
        let plan = plan_of(TILE, &ladder());
        let point = plan.points.iter().find(|point| point.tiles == 2).expect("the ladder has it");
        let names: Vec<&str> = point.guests.iter().map(|guest| guest.name.as_str()).collect();
        let of_one_tile = names.len() / 2;
        let second = |seconds: f64, used: [Option<f64>; 2]| {
            let guest = |(name, threads_used): (&&str, Option<f64>)| WatchedSecond {
                threads_used,
                read_bytes: Some(100),
                written_bytes: Some(200),
                ..quiet_guest(name)
            };
            let watched = [names[0], names[of_one_tile]].iter().zip(used).map(guest).collect();
            let port = InterfaceSecond {
                name: port_name(0),
                received_bytes: 30,
                received_packets: 0,
                received_drops: 0,
                sent_bytes: 10,
                sent_packets: 0,
                sent_drops: 0,
            };
            Second { seconds, watched, interfaces: vec![port], ..quiet_second() }
        };
        let seconds = vec![second(1.0, [Some(1.0), Some(0.1)]), second(3.0, [Some(0.2), None])];
        let whole = Some(Box::new(second(4.0, [None, None])));
        let uses = of(point, &HostRead { seconds, whole, ..HostRead::default() });
        assert_eq!(uses.len(), 1, "of the others nothing was read");
        let GuestUse { guest, guests, processors, processors_max, disk_bytes_per_s, .. } = &uses[0];
        assert_eq!((guest.as_str(), *guests), (point.guests[0].name_in_tile(), 2));
        // 0.4 over four seconds, and 0.1 over the one that is known.
        assert!((processors - 0.25).abs() < 1e-9 && (processors_max - 0.4).abs() < 1e-9, "{uses:?}");
        assert_eq!(*disk_bytes_per_s, Some(150.0));
        assert_eq!(uses[0].network_bytes_per_s, None, "one of two ports was read");
    }
}

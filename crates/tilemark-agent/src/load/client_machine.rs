//! What a client machine is and has done, and how far away a service is.

use crate::clock;
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{ClientDescription, DeviceDescription, PROBES_MAX, Reply};

/// A service that takes longer to accept is not there.
const CONNECTS_WITHIN: Duration = Duration::from_secs(3);

/// This machine now.
pub(super) fn describe(towards: Option<Ipv4Addr>) -> ClientDescription {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let word = |path: &str| text(path).trim().to_owned();
    let times = Times::of(&text("/proc/stat"));
    let processors = rustix::thread::sched_getaffinity(None).map(|set| {
        (0..rustix::thread::CpuSet::MAX_CPU)
            .filter(move |&number| set.is_set(number))
            .map(|number| number as u32)
    });
    let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    ClientDescription {
        kernel: word("/proc/sys/kernel/osrelease"),
        boot_id: word("/proc/sys/kernel/random/boot_id"),
        processors: processors.map(Iterator::collect).unwrap_or_default(),
        online: text("/proc/stat").lines().filter(|line| is_processor(line)).count() as u32,
        monotonic_ns: clock::monotonic_ns(),
        busy_ns: times.busy_ns,
        stolen_ns: times.stolen_ns,
        own_ns: (own.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(own.tv_nsec as u64),
        device: towards.and_then(|towards| {
            device(&device_towards(&text("/proc/self/net/route"), towards)?, &text("/proc/self/net/dev"))
        }),
    }
}

fn is_processor(line: &str) -> bool {
    line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
}

/// Processor times of all processors since the boot.
struct Times {
    busy_ns: u64,
    stolen_ns: u64,
}

impl Times {
    /// From the first line of `/proc/stat` (proc(5)): user, nice, system, idle, iowait, irq, softirq, steal. Its unit is a hundredth of a
    /// second on Linux.
    fn of(stat: &str) -> Self {
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().skip(1).map_while(|tick| tick.parse().ok()).collect();
        let ns = |place: usize| ticks.get(place).copied().unwrap_or(0).saturating_mul(10_000_000);
        Self { busy_ns: ns(0) + ns(1) + ns(2), stolen_ns: ns(7) }
    }
}

/// The device of the most specific route to an address, by `/proc/net/route`: addresses are hexadecimal in the machine's byte order.
fn device_towards(routes: &str, towards: Ipv4Addr) -> Option<String> {
    let towards = u32::from_ne_bytes(towards.octets());
    let fitting = routes.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let hexadecimal = |place: usize| u32::from_str_radix(fields.get(place)?, 16).ok();
        let (destination, mask) = (hexadecimal(1)?, hexadecimal(7)?);
        (towards & mask == destination).then(|| (mask.count_ones(), (*fields[0]).to_owned()))
    });
    // The first of several as specific ones has the smallest metric.
    fitting.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, device)| device)
}

fn device(name: &str, counters: &str) -> Option<DeviceDescription> {
    let of_device = |line: &str| {
        let (device, fields) = line.split_once(':')?;
        let fields: Vec<u64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
        (device.trim() == name).then(|| Some((*fields.first()?, *fields.get(8)?)))?
    };
    let (received, sent) = counters.lines().find_map(of_device)?;
    // A device without a line has no speed, or one below 0.
    let speed = fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok();
    let mbit_per_s = speed.and_then(|speed| speed.trim().parse().ok()).filter(|speed: &u32| *speed > 0);
    Some(DeviceDescription { name: name.to_owned(), mbit_per_s, received, sent })
}

/// Connects so many times and says how long each took. `connected` is called behind each.
pub(super) fn probe(target: SocketAddr, times: u32, connected: impl Fn()) -> Reply {
    let mut ns = Vec::new();
    for _ in 0..times.min(PROBES_MAX) {
        let began = Instant::now();
        match TcpStream::connect_timeout(&target, CONNECTS_WITHIN) {
            Ok(_) => ns.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            Err(error) => return Reply::Probed { ns, failed: Some(error.to_string()) },
        }
        connected();
    }
    Reply::Probed { ns, failed: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_programs_and_what_was_stolen() {
        let times = Times::of("cpu  100 20 30 4000 50 6 7 8 0 0\ncpu0 1 2 3\n");
        assert_eq!((times.busy_ns, times.stolen_ns), (1_500_000_000, 80_000_000));
        let nothing = Times::of("");
        assert_eq!((nothing.busy_ns, nothing.stolen_ns), (0, 0));
    }

    #[test]
    fn the_device_is_that_of_the_most_specific_route() {
        let routes = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
                      eth0 00000000 0100000A 0003 0 0 0 00000000 0 0 0\n\
                      eth1 0000000A 00000000 0001 0 0 0 000000FF 0 0 0\n\
                      eth2 0000000A 00000000 0001 0 0 9 000000FF 0 0 0\n";
        let towards = |address: [u8; 4]| device_towards(routes, address.into());
        assert_eq!(towards([10, 1, 2, 3]).as_deref(), Some("eth1"));
        assert_eq!(towards([192, 0, 2, 1]).as_deref(), Some("eth0"));
        assert_eq!(device_towards("", [192, 0, 2, 1].into()), None);
    }

    #[test]
    fn a_device_has_its_own_counters() {
        let counters = " Inter-| Receive\n  lo: 5 1 0 0 0 0 0 0 6 1 0\n eth9: 70 1 0 0 0 0 0 0 80 1 0\n";
        let eth9 = device("eth9", counters).unwrap();
        assert_eq!((eth9.received, eth9.sent), (70, 80));
        assert_eq!(device("eth8", counters), None);
    }

    #[test]
    fn a_probe_counts_connections_and_names_why_one_failed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        // Its host is not heard while it connects: each connection is a sign of life in its place.
        let signs = std::cell::Cell::new(0);
        let Reply::Probed { ns, failed } = probe(target, 3, || signs.set(signs.get() + 1)) else { panic!() };
        assert_eq!((ns.len(), failed, signs.get()), (3, None, 3));
        drop(listener);
        let Reply::Probed { ns, failed } = probe(target, 3, || ()) else { panic!() };
        assert!(ns.is_empty() && failed.is_some());
    }
}

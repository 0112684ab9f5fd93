//! The tile, the host and the request that tests of many crates plan with, figures of repeats, a process that plays QEMU, and what becomes of a
//! test that lacks what it needs. No program that ships knows this crate.

pub mod figures;
mod needs;
mod player;

use std::collections::BTreeMap;
use tilemark_plan::{
    parse::Draft,
    plan::{AcceleratorVerdict, Backend, GuestPlan, Hardware, HostSummary, MacAddress, Plan, guest_address},
    resolve::{Request, resolve},
    scenario::Role,
};
use tilemark_units::Bytes;

pub use needs::skipped;
pub use player::QemuPlayer;

/// One web guest, asked for ten files a second, in a ladder of one and two tiles. A test may append `[measure]` and what varies.
pub const TILE: &str = r#"
schema = 1
name = "t"
about = "a test"
headline = "web"
[[guest]]
name = "web"
role = "web"
[[load]]
name = "web"
guest = "web"
rate = "10/s"
[load.web]
[ladder]
tiles = [1, 2]
"#;

/// A web server, asked by another guest of its tile, and one that is asked from outside.
pub const TILE_WITH_CLIENT: &str = r#"
schema = 1
name = "t"
about = "a test"
headline = "web"
[[guest]]
name = "web"
role = "web"
[[guest]]
name = "web-inside"
role = "web"
[[guest]]
name = "client"
role = "client"
[[load]]
name = "web"
guest = "web"
rate = "10/s"
[load.web]
[[load]]
name = "inside"
guest = "web-inside"
from = "client"
rate = "10/s"
[load.web]
[ladder]
tiles = [2]
"#;

/// A program of the user's own in one guest, that prints how long it took.
pub const COMMAND: &str = r#"
schema = 1
name = "own"
about = "A program of one's own."
ladder.tiles = [1, 2]
guest = [{ name = "guest", role = "compute" }]
[[load]]
name = "job"
guest = "guest"
[load.command]
run = ["bench"]
figure = 'took ([0-9.]+)'
unit = "s"
better = "lower"
"#;

/// A host with KVM and all of its memory free.
pub fn host(threads: u32, memory: Bytes) -> HostSummary {
    HostSummary {
        name: "testhost".to_owned(),
        kernel: "6.1".to_owned(),
        processor: "a processor".to_owned(),
        threads: (0..threads).collect(),
        memory_total: memory,
        memory_available: memory,
        kvm: AcceleratorVerdict::Usable,
        hardware: Hardware::Real,
        counts_energy: false,
        topology: Default::default(),
        own_bridge: None,
    }
}

/// The guest of that index in a point of its own tile: one processor, 96 MiB and nothing else.
pub fn guest(index: u32, role: Role) -> GuestPlan {
    let tile = index + 1;
    GuestPlan {
        name: format!("tile-{tile:03}-{}", role.name()),
        index,
        tile,
        role,
        services: Vec::new(),
        broker: Default::default(),
        vcpus: 1,
        memory: Bytes::from_mib(96),
        working_set: Bytes::default(),
        disks: Vec::new(),
        net: Default::default(),
        mac: MacAddress::of_guest(index),
        address: guest_address(index),
        network: None,
        processors: Vec::new(),
        reaches: Vec::new(),
        asks: None,
        place: None,
        hugepages: None,
        from: None,
        runs_command: false,
    }
}

/// A scenario's own ladder on these backends, with nothing set.
pub fn request(backends: &[Backend]) -> Request {
    Request {
        preset: None,
        settings: BTreeMap::new(),
        backends: backends.to_vec(),
        tiles: None,
        sides: None,
        search: false,
        interference: false,
        confirm_blocks: 0,
        screening: None,
        within: None,
        demonstrate: None,
        seed: 1,
    }
}

/// Settings as flags give them, by key.
pub fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The plan of a scenario that is right.
///
/// # Panics
/// When it is wrong, or does not fit the host.
pub fn plan(scenario: &str, request: &Request, host: &HostSummary) -> Plan {
    let draft = Draft::from_toml(scenario, "test").unwrap_or_else(|problems| panic!("{problems}"));
    resolve(&draft, request, host).unwrap_or_else(|problems| panic!("{problems}"))
}

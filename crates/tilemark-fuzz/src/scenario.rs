//! Scenarios: from any text to a plan.

use crate::Target;
use std::collections::BTreeMap;
use tilemark_plan::{
    builtin::BUILTINS,
    parse::Draft,
    plan::{AcceleratorVerdict, Backend, Hardware, HostSummary, Plan},
    resolve::{HOST_PRESET, Request, Sides, resolve},
};
use tilemark_units::{Bytes, Span};

pub(crate) const SCENARIO: Target = Target {
    name: "scenario",
    about: "a scenario file, up to the plan",
    take: take_scenario,
    seeds: scenarios,
};

fn host(threads: u32) -> HostSummary {
    HostSummary {
        name: "testhost".to_owned(),
        kernel: "6.1".to_owned(),
        processor: "a processor".to_owned(),
        threads: (0..threads).collect(),
        memory_total: Bytes::from_gib(512),
        memory_available: Bytes::from_gib(500),
        kvm: AcceleratorVerdict::Usable,
        hardware: Hardware::Real,
        counts_energy: false,
    }
}

fn asked() -> Request {
    Request {
        preset: None,
        settings: BTreeMap::new(),
        backends: vec![Backend::Kvm, Backend::Native],
        tiles: None,
        sides: None,
        search: false,
        within: None,
        demonstrate: None,
        seed: 1,
    }
}

/// The plan of a scenario that is right.
pub(crate) fn plan_of(text: &str) -> Plan {
    let draft = Draft::from_toml(text, "a test's").unwrap_or_else(|problems| panic!("{problems}"));
    resolve(&draft, &asked(), &host(8)).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Takes a scenario.
pub fn take_scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(draft) = Draft::from_toml(text, "fuzz.toml") else { return };
    let presets = draft.finish().map(|scenario| scenario.preset.into_keys().collect()).unwrap_or_default();
    for request in requests(presets) {
        match resolve(&draft, &request, &host(8)) {
            Ok(plan) => {
                let _ = tilemark_run::plan_text::text(&plan);
                let _ = plan.points.iter().map(tilemark_plan::expect::time_of).count();
            }
            Err(problems) => drop(problems.to_string()),
        }
    }
}

/// All that a command can ask of a scenario.
fn requests(presets: Vec<String>) -> Vec<Request> {
    let sides = Sides {
        a: BTreeMap::new(),
        b: [("qemu.machine".to_owned(), "q35".to_owned())].into_iter().collect(),
    };
    let mut requests = vec![
        asked(),
        Request { preset: Some(HOST_PRESET.to_owned()), ..asked() },
        Request { search: true, within: Some(Span::from_seconds(600)), ..asked() },
        Request { sides: Some(sides), demonstrate: Some(Backend::Emulated), ..asked() },
    ];
    requests.extend(presets.into_iter().take(3).map(|preset| Request { preset: Some(preset), ..asked() }));
    requests
}

fn scenarios() -> Vec<Vec<u8>> {
    BUILTINS.iter().map(|builtin| builtin.text.as_bytes().to_vec()).collect()
}

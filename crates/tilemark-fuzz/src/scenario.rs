//! Scenarios: from any text to a plan.

use crate::edit::edit;
use std::collections::BTreeMap;
use tilemark_fixtures as fixtures;
use tilemark_plan::{
    builtin::BUILTINS,
    parse::Draft,
    plan::{Backend, HostSummary, Plan},
    resolve::{HOST_PRESET, Request, Sides, resolve},
};
use tilemark_units::{Bytes, Span};

fn host() -> HostSummary {
    fixtures::host(8, Bytes::from_gib(512))
}

fn asked() -> Request {
    fixtures::request(&[Backend::Kvm, Backend::Native])
}

/// The plan of a scenario that is right.
pub(crate) fn plan_of(text: &str) -> Plan {
    fixtures::plan(text, &asked(), &host())
}

/// Begins edits of the built-in scenarios instead of a text; no UTF-8 has it.
const EDITS: u8 = 0xff;

/// Takes a scenario, or edits of those that are built in.
pub fn take_scenario(bytes: &[u8]) {
    let text = match bytes.split_first() {
        Some((&EDITS, edits)) => edited(edits),
        _ => std::str::from_utf8(bytes).ok().map(str::to_owned),
    };
    if let Some(text) = text {
        take_text(&text);
    }
}

/// One of the built-in scenarios with these edits; `None` where that is no TOML.
fn edited(edits: &[u8]) -> Option<String> {
    let (first, edits) = edits.split_first()?;
    let builtin = BUILTINS[usize::from(*first) % BUILTINS.len()];
    let document: toml::Table = builtin.text.parse().expect("a built-in scenario is TOML");
    let mut documents = [serde_json::to_value(document).expect("and has no dates")];
    edit(&mut documents, edits);
    toml::to_string(&documents[0]).ok()
}

fn take_text(text: &str) {
    let Ok(draft) = Draft::from_toml(text, "fuzz.toml") else { return };
    let presets = draft.finish().map(|scenario| scenario.preset.into_keys().collect()).unwrap_or_default();
    for request in requests(presets) {
        match resolve(&draft, &request, &host()) {
            Ok(plan) => {
                // As a record keeps it: what is written is read.
                let written = serde_json::to_string(&plan).expect("a plan is JSON");
                serde_json::from_str::<Plan>(&written).expect("and is read back");
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

pub(crate) fn scenarios() -> Vec<Vec<u8>> {
    let texts = BUILTINS.iter().map(|builtin| builtin.text.as_bytes().to_vec());
    let edits = (0..BUILTINS.len() as u8).map(|first| {
        [vec![EDITS, first], (0..6_u8).flat_map(|place| [0, 0, place * 7, place * 4]).collect()].concat()
    });
    texts.chain(edits).collect()
}

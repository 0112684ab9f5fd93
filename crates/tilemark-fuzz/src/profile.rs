//! Profiles of host settings, those of tuned, and the file that says where guests belong.

use std::collections::{BTreeMap, BTreeSet};
use tilemark_host::{
    exchange::{Format, export, import_tuned},
    pin::{Machine, PinMap},
};
use tilemark_plan::profile::{PROFILES, Profile};

const FORMATS: [Format; 3] = [Format::Tuned, Format::Sysctl, Format::KernelLine];

/// Takes a text as each of the three.
pub fn take_profile(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(profile) = Profile::from_toml(text, "fuzz.toml") {
        for format in FORMATS {
            let exported = export(&profile, format);
            if format == Format::Tuned {
                is_read_again(&exported);
            }
        }
    }
    is_read_again(text);
    let machine = Machine {
        nodes: BTreeMap::from([(0, BTreeSet::from([0, 1])), (1, BTreeSet::from([2, 3]))]),
        online: (0..4).collect(),
        present: (0..5).collect(),
    };
    if let Ok(map) = PinMap::parse(text, &machine) {
        for line in &map.lines {
            assert!(line.target.processors.is_subset(&machine.online));
            let _ = map.target_of(&line.glob);
        }
    }
}

/// What was taken from a profile of tuned is a profile of ours, with its comments.
fn is_read_again(text: &str) {
    let imported = import_tuned(text, "fuzz");
    let again = Profile::from_toml(&imported.to_toml(), "again.toml");
    assert_eq!(again.as_ref(), Ok(&imported.profile), "{text:?}");
}

pub(crate) fn profiles() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = PROFILES.iter().map(|builtin| builtin.text.into()).collect();
    let exported = PROFILES.iter().filter_map(|builtin| {
        let profile = Profile::from_toml(builtin.text, builtin.name).ok()?;
        Some(export(&profile, Format::Tuned).into_bytes())
    });
    seeds.extend(exported);
    seeds.push(include_bytes!("../../tilemark-host/tests/tuned/database.conf").to_vec());
    seeds.push(b"# pins\npostgres1 0-1\nnode0-*   0\n*-db cpus 1,3\n".to_vec());
    seeds
}

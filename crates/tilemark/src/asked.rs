//! What a command line asks for, as the program's library takes it.

use crate::{
    arguments::{
        AbArguments, CapacityArguments, InterferenceArguments, On, QuickArguments, Resolution, RunArguments,
        TryArguments,
    },
    screen,
};
use std::collections::BTreeMap;
use tilemark_run::{
    plan::host::demonstration,
    plan::prepare::{Asked, AskedScreening},
    plan_words::{Backend, Sides},
};

/// What all that resolve a scenario are asked for.
pub(crate) fn of_resolution(resolution: &Resolution) -> Asked {
    Asked {
        on: backend(resolution.on),
        preset: resolution.preset.clone(),
        settings: settings(&resolution.set),
        trust: resolution.trust,
        seed: resolution.seed,
        ..Asked::default()
    }
}

/// What `tilemark run` is asked for.
pub(crate) fn of_run(arguments: &RunArguments) -> Asked {
    Asked {
        scenario: arguments.scenario.clone(),
        tiles: arguments.tiles.clone(),
        twin: arguments.twin,
        within: arguments.within,
        ..of_resolution(&arguments.resolution)
    }
}

/// What `tilemark capacity` is asked for.
pub(crate) fn of_capacity(arguments: &CapacityArguments) -> Asked {
    Asked {
        scenario: arguments.scenario.clone(),
        search: true,
        twin: arguments.twin,
        within: arguments.within,
        ..of_resolution(&arguments.resolution)
    }
}

/// What `tilemark interference` is asked for.
pub(crate) fn of_interference(arguments: &InterferenceArguments) -> Asked {
    Asked {
        scenario: arguments.scenario.clone(),
        interference: true,
        confirm_blocks: arguments.confirm,
        ..of_resolution(&arguments.resolution)
    }
}

/// What `tilemark host try` is asked for.
pub(crate) fn of_try(arguments: &TryArguments) -> Asked {
    Asked {
        scenario: arguments.scenario.clone(),
        tiles: arguments.tiles.map(|tiles| vec![tiles]),
        screening: Some(AskedScreening {
            profile: arguments.profile.clone(),
            allow: arguments.allow.clone(),
            pairs: arguments.pairs,
        }),
        ..of_resolution(&arguments.resolution)
    }
}

/// What `tilemark quick` is asked for on this host.
pub(crate) fn of_quick(arguments: &QuickArguments) -> Asked {
    let shown = demonstration();
    if let Some(why) = &shown.why_not_kvm {
        screen::note(&format!("No capacity answer for guests on this host: {why}"));
        screen::note(
            "Measuring natively instead. One tile of emulated guests then shows whether guests work.",
        );
    }
    Asked {
        scenario: "first-look".to_owned(),
        preset: Some("quick".to_owned()),
        on: Some(shown.backend),
        // A native run is the twin itself.
        twin: shown.backend == Backend::Kvm,
        demonstrate: shown.demonstrate,
        kvm: Some(shown.kvm),
        search: true,
        within: Some(arguments.within),
        seed: arguments.seed,
        ..Asked::default()
    }
}

/// What `tilemark ab` is asked for.
pub(crate) fn of_ab(arguments: &AbArguments) -> Asked {
    Asked {
        scenario: arguments.scenario.clone(),
        tiles: arguments.tiles.clone(),
        within: arguments.within,
        sides: Some(Sides { a: settings(&arguments.a), b: settings(&arguments.b) }),
        ..of_resolution(&arguments.resolution)
    }
}

/// The backend that a flag names; `None`: kvm, or stop.
pub(crate) fn backend(on: On) -> Option<Backend> {
    match on {
        On::Auto => None,
        On::Kvm => Some(Backend::Kvm),
        On::Emulated => Some(Backend::Emulated),
        On::Native => Some(Backend::Native),
    }
}

/// Settings by key; the last one of a key counts.
pub(crate) fn settings(pairs: &[(String, String)]) -> BTreeMap<String, String> {
    pairs.iter().cloned().collect()
}

//! The scenarios inside the program, ready to run.

/// A scenario inside the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// Its name, as in `tilemark run NAME`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// All of them, in the order in which they are listed.
pub const BUILTINS: &[Builtin] = &[
    Builtin { name: "first-look", text: include_str!("../../../scenarios/first-look.toml") },
    Builtin { name: "web", text: include_str!("../../../scenarios/web.toml") },
    Builtin { name: "disk", text: include_str!("../../../scenarios/disk.toml") },
    Builtin { name: "messaging", text: include_str!("../../../scenarios/messaging.toml") },
    Builtin { name: "oltp", text: include_str!("../../../scenarios/oltp.toml") },
    Builtin { name: "sysbench", text: include_str!("../../../scenarios/sysbench.toml") },
    Builtin { name: "memory", text: include_str!("../../../scenarios/memory.toml") },
    Builtin { name: "jobs", text: include_str!("../../../scenarios/jobs.toml") },
    Builtin { name: "my-command", text: include_str!("../../../scenarios/my-command.toml") },
    Builtin { name: "sessions", text: include_str!("../../../scenarios/sessions.toml") },
    Builtin { name: "shop", text: include_str!("../../../scenarios/shop.toml") },
    Builtin { name: "consolidation", text: include_str!("../../../scenarios/consolidation.toml") },
    Builtin { name: "density", text: include_str!("../../../scenarios/density.toml") },
];

/// The one with this name.
pub fn builtin(name: &str) -> Option<Builtin> {
    BUILTINS.iter().copied().find(|builtin| builtin.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Draft;

    #[test]
    fn every_scenario_and_every_preset_of_it_reads() {
        for &Builtin { name, text } in BUILTINS {
            let draft = Draft::from_toml(text, name).unwrap();
            let scenario = draft.finish().unwrap_or_else(|problems| panic!("{name}: {problems}"));
            assert_eq!(scenario.name, name);
            for preset in scenario.preset.keys() {
                let mut draft = draft.clone();
                draft.apply_preset(preset).unwrap();
                draft.finish().unwrap_or_else(|problems| panic!("{name} --preset {preset}: {problems}"));
            }
        }
    }
}

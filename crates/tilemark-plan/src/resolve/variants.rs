//! Which scenarios a plan measures: at each value of what varies, on each side, of each pair of roles, or of each row of a screening.

use crate::{
    host_settings::HostSettings,
    interference::{self, Together},
    parse::Draft,
    plan::{Backend, SideName},
    problem::{Problem, Problems},
    request::Request,
    scenario::Scenario,
    screening::{self, SETTINGS_MAX, Screened, Screening},
    vary,
};
use std::collections::{BTreeMap, BTreeSet};

/// The scenario at one value of everything that varies, on one side.
pub(super) struct Variant {
    pub(super) scenario: Scenario,
    pub(super) side: Option<SideName>,
    pub(super) vary: BTreeMap<String, String>,
    /// The roles that it is a part of the scenario for.
    pub(super) together: Option<Together>,
    /// What it is in a screening.
    pub(super) screened: Option<Screened>,
    /// What is set on the host.
    pub(super) host: HostSettings,
    /// Dotted keys that the user set, or that vary.
    pub(super) chosen: BTreeSet<String>,
}

pub(super) fn variants(
    draft: &Draft,
    scenario: &Scenario,
    request: &Request,
) -> Result<Vec<Variant>, Problems> {
    let problems = request.sides.as_ref().map(|sides| vary::check_sides(scenario, sides)).unwrap_or_default();
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let none = BTreeMap::new();
    let sides: Vec<(Option<SideName>, &BTreeMap<String, String>)> = match &request.sides {
        None => vec![(None, &none)],
        Some(sides) => vec![(Some(SideName::A), &sides.a), (Some(SideName::B), &sides.b)],
    };
    // What the user chose for one side is as deliberate on the other.
    let of_sides = sides.iter().flat_map(|(_, settings)| settings.keys());
    let chosen: BTreeSet<String> = request.settings.keys().chain(of_sides).cloned().collect();
    let mut variants = Vec::new();
    for combination in combinations(scenario) {
        for (side, settings) in &sides {
            let mut draft = draft.clone();
            let mut vary = BTreeMap::new();
            let mut chosen = chosen.clone();
            for (name, key, value) in &combination {
                draft.set(key, value.clone())?;
                chosen.insert(key.clone());
                vary.insert(name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            }
            draft.apply_typed(if *side == Some(SideName::B) { "--b" } else { "--a" }, settings)?;
            // There may be a thousand: what no point needs is left out.
            let scenario = Scenario { preset: BTreeMap::new(), vary: BTreeMap::new(), ..draft.finish()? };
            let host = host_settings(&scenario);
            variants.push(Variant {
                scenario,
                side: *side,
                vary,
                together: None,
                screened: None,
                host,
                chosen,
            });
        }
    }
    let of_first_side = variants.iter().filter(|variant| variant.side == variants[0].side);
    match vary::same(of_first_side.map(|variant| (&variant.vary, &variant.scenario))) {
        Some(problem) => Err(problem.into()),
        None => Ok(variants),
    }
}

/// The parts of the scenario whose roles are measured alone and together.
pub(super) fn roles_together(scenario: &Scenario, request: &Request) -> Result<Vec<Variant>, Problems> {
    let roles = interference::roles(scenario);
    if roles.len() < 2 || scenario.load.is_empty() {
        let message =
            format!("scenario `{}` has no two roles that could slow each other down", scenario.name);
        return Err(Problem::new(message, "use a scenario with a load and two guests or more").into());
    }
    if !scenario.vary.is_empty() {
        let remedy = "leave out `vary` in a copy of the scenario";
        return Err(
            Problem::new("roles are measured in pairs, and this scenario varies something", remedy).into()
        );
    }
    if request.backends.contains(&Backend::Emulated) {
        let message = "times of emulated guests mean nothing, and a slowdown is a ratio of times";
        return Err(Problem::new(message, "measure with `--on native` or `--on kvm`").into());
    }
    let variant = |together: Together| Variant {
        scenario: interference::part(scenario, &together),
        side: None,
        vary: [(interference::ROLES.to_owned(), together.to_string())].into(),
        together: Some(together),
        screened: None,
        host: host_settings(scenario),
        chosen: request.settings.keys().cloned().collect(),
    };
    Ok(interference::all(scenario).into_iter().map(variant).collect())
}

fn host_settings(scenario: &Scenario) -> HostSettings {
    HostSettings::asked(scenario.host.profile.as_ref(), &scenario.host.setting)
}

/// The scenario once for each row of a screening's design and its mirror image.
pub(super) fn screened(
    scenario: &Scenario,
    screening: &Screening,
    request: &Request,
) -> Result<Vec<Variant>, Problems> {
    let mut problems = Vec::new();
    let settings = screening.settings.len();
    if settings == 0 {
        let message =
            format!("no setting of the profile `{}` can be screened on this host", screening.profile);
        problems.push(Problem::new(message, "see why with `tilemark host plan`, or give another profile"));
    }
    if settings > SETTINGS_MAX {
        let message =
            format!("{settings} settings are more than the {SETTINGS_MAX} that one screening has room for");
        problems.push(Problem::new(message, "make a profile of the settings that matter most"));
    }
    if !scenario.vary.is_empty() || !scenario.host.setting.is_empty() || scenario.host.profile.is_some() {
        let message = "a screening sets the host itself, and this scenario varies something or sets the host";
        problems.push(Problem::new(
            message,
            "leave out `vary`, `host.profile` and `host.setting` in a copy of the scenario",
        ));
    }
    if scenario.load.is_empty() {
        let message = format!("scenario `{}` has no load that a setting could speed up", scenario.name);
        problems.push(Problem::new(message, "use a scenario with a load"));
    }
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let variant = |(screened, host): (Screened, HostSettings)| Variant {
        scenario: Scenario { preset: BTreeMap::new(), ..scenario.clone() },
        side: None,
        vary: [(screening::SETTINGS.to_owned(), screened.to_string())].into(),
        together: None,
        screened: Some(screened),
        host,
        chosen: request.settings.keys().cloned().collect(),
    };
    Ok(screening.of_design().into_iter().map(variant).collect())
}

type Setting = (String, String, serde_json::Value);

fn combinations(scenario: &Scenario) -> Vec<Vec<Setting>> {
    scenario.vary.iter().fold(vec![Vec::new()], |combinations, (name, vary)| {
        let with = |value: &serde_json::Value, mut so_far: Vec<Setting>| {
            so_far.push((name.clone(), vary.key.clone(), value.clone()));
            so_far
        };
        let of =
            |so_far: Vec<Setting>| vary.values.iter().map(move |value| with(value, so_far.clone())).collect();
        combinations.into_iter().flat_map(|so_far| -> Vec<Vec<Setting>> { of(so_far) }).collect()
    })
}

//! From what the user asked to a plan: read the scenario, read the host, choose the backend, resolve.

use crate::{
    failure::{Failure, FailureCode},
    plan::checks,
    plan::command_files,
    plan::host::{Probe, choose, facts, summary},
    plan::host_settings::{self, PlannedSetting},
    plan::image_asked::{ImageAsked, Untrusted, untrusted_file},
    plan::{image_check, own_disks, qemu_check, web_files},
};
use rustix::rand::{GetRandomFlags, getrandom};
use std::{collections::BTreeMap, path::Path};
use tilemark_guests::own_bridge::{self, WantedBridge};
use tilemark_host::{LiveHost, read_facts};
use tilemark_plan::{
    builtin::{BUILTINS, builtin},
    expect,
    facts::{Accelerator, HostFacts},
    parse::{Draft, SCENARIO_BYTES_MAX},
    place::check_expanded,
    plan::{Backend, HostSummary, Plan, shell_word},
    relative_paths::{RelativePath, relative_paths},
    resolve::{HOST_PRESET, Request, Sides, as_asked, resolve},
    scenario::{FROM_CLIENTS, Scenario},
    screening::Design,
    trust::{HostUse, HostUseKind, host_uses, not_typed},
};
use tilemark_site::Site;
use tilemark_statistics::{Arrangement, PRIMARY_MEASURES_MAX, can_reach};
use tilemark_sys::text_file::read_text;
use tilemark_units::{Span, counted};

/// What the user asked of a scenario.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked {
    /// A name inside the program, or a path.
    pub scenario: String,
    /// How guests run; `None`: kvm, or stop.
    pub on: Option<Backend>,
    /// Preset to apply.
    pub preset: Option<String>,
    /// `--set` values.
    pub settings: BTreeMap<String, String>,
    /// Tile counts instead of the ladder's.
    pub tiles: Option<Vec<u32>>,
    /// The native twin in the same blocks.
    pub twin: bool,
    /// Search for the largest tile count that holds, within a time.
    pub search: bool,
    /// Each role of the tile alone and beside every other one.
    pub interference: bool,
    /// Further blocks of repeats of the pairs of roles that look slow; 0: none.
    pub confirm_blocks: u32,
    /// Settings of the host that are screened.
    pub screening: Option<AskedScreening>,
    /// End within this.
    pub within: Option<Span>,
    /// Settings of two sides.
    pub sides: Option<Sides>,
    /// Programs and files of the host that the scenario's file names may be used.
    pub trust: bool,
    /// Show also whether guests work on this backend.
    pub demonstrate: Option<Backend>,
    /// What is known of the accelerator already; `None`: it is timed if anything asked needs it.
    pub kvm: Option<Accelerator>,
    /// Seeds order, schedules and choices; `None`: one is drawn.
    pub seed: Option<u64>,
    /// The user's own bridge that guests are joined to.
    pub network: Option<WantedBridge>,
    /// The site, where a file of it was given.
    pub site: Option<Site>,
}

/// A screening that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AskedScreening {
    /// The profile: a name inside the program, or a path.
    pub profile: String,
    /// Keys that are screened although they make the host easier to attack, or may lose data.
    pub allow: Vec<String>,
    /// Pairs in which a setting that looks real is confirmed.
    pub pairs: u32,
}

/// A plan with the facts that it was made from.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// What will happen.
    pub plan: Plan,
    /// What the host is.
    pub facts: HostFacts,
    /// The image of its guests.
    pub image: ImageAsked,
    /// The scenario's text.
    pub scenario_text: String,
    /// What of the host is used because the scenario's file names it, and no flag does.
    pub named_by_file: Vec<HostUse>,
    /// What is set on the host, with its values of now.
    pub settings: Vec<PlannedSetting>,
    /// Settings of profiles that are not set because they are dangerous, with what to do.
    pub left_out: Vec<String>,
    /// Programs that run and change the same settings, with what to do.
    pub rivals: Vec<String>,
    /// Whether the user trusts the scenario's file with those.
    pub trust: bool,
    /// Why the repeats of two sides cannot show a difference at the stated p, if they can't.
    pub out_of_reach: Option<String>,
    /// The site, where loads come from client machines.
    pub site: Option<Site>,
}

const REPEATS: &str = "measure.repeats";
/// Pairs of two sides, unless the user says another number or the scenario more. Ten are the fewest that can give p < 0.01 for three
/// measures, and must all point the same way then; of twelve some may differ.
const PAIRS: u32 = 12;

fn out_of_reach(plan: &Plan) -> Option<String> {
    let measure = &plan.points.first()?.measure;
    let repeats = measure.repeats as usize;
    // p of the measures that decide is corrected by Holm, which asks the smallest of three for a third.
    let each = measure.significance.get() / PRIMARY_MEASURES_MAX as f64;
    can_reach(Arrangement::Pairs, repeats, each).err().map(|missing| missing.reason)
}

/// Reads scenario and host and resolves.
pub fn prepare(asked: &Asked) -> Result<Prepared, Failure> {
    if asked.twin && asked.on == Some(Backend::Native) {
        return Err(Failure::new(
            FailureCode::BadInput,
            "`--twin` beside `--on native`: a native run is the twin, and has none of its own",
            "leave out `--twin`, or measure guests beside it with `--on kvm`",
        ));
    }
    if asked.twin && asked.search && asked.on == Some(Backend::Emulated) {
        return Err(Failure::new(
            FailureCode::BadInput,
            "`capacity --twin` with `--on emulated`: emulated guests give no capacity that a native twin could be compared with",
            "leave out `--twin`, or measure both at counts of your own with `run --on emulated --twin`",
        ));
    }
    let scenario_text = text_of(&asked.scenario)?;
    let draft = Draft::from_toml(&scenario_text, &asked.scenario)?;
    let mut settings = asked.settings.clone();
    // Mistakes are reported before the host is looked at, which may take seconds and may be refused.
    let scenario = as_asked(&draft, asked.preset.as_deref(), &settings, asked.tiles.as_deref())
        .and_then(|draft| draft.finish())?;
    let site = site_of(asked, &scenario)?;
    if asked.sides.is_some() && !settings.contains_key(REPEATS) && scenario.measure.repeats < PAIRS {
        settings.insert(REPEATS.to_owned(), PAIRS.to_string());
    }
    let own_bridge = asked.network.as_ref().map(own_bridge::look_at).transpose()?;
    let screening = asked.screening.as_ref();
    let screening =
        screening.map(|asked| host_settings::screening(&asked.profile, &asked.allow, asked.pairs));
    let screening = screening.transpose()?;
    let design = screening.as_ref().and_then(|screening| Design::of(screening.settings.len()));
    if let Some(design) = design.filter(|_| !settings.contains_key(REPEATS)) {
        settings.insert(REPEATS.to_owned(), design.repeats().to_string());
    }
    let needs_probe = asked.on.is_none() || asked.on == Some(Backend::Kvm);
    let facts = match &asked.kvm {
        Some(known) => read_facts(&LiveHost, known.clone()),
        None => facts(if needs_probe { Probe::Time } else { Probe::Skip }),
    };
    let backend = choose(asked.on, &facts)?;
    let mut backends = vec![backend];
    if asked.twin {
        backends.push(Backend::Native);
    }
    let request = Request {
        preset: asked.preset.clone(),
        settings,
        backends,
        tiles: asked.tiles.clone(),
        sides: asked.sides.clone(),
        search: asked.search,
        interference: asked.interference,
        confirm_blocks: asked.confirm_blocks,
        screening,
        within: asked.within,
        demonstrate: asked.demonstrate,
        seed: asked.seed.map_or_else(drawn_seed, Ok)?,
    };
    let mut plan = resolve(&draft, &request, &HostSummary { own_bridge, ..summary(&facts)? })?;
    plan.keep_needed_addresses();
    // Before profiles and files are read into it: each is one use of the host.
    let named = host_uses(&plan);
    let named_by_file = match builtin(&asked.scenario) {
        Some(_) => Vec::new(),
        // What is screened was asked for by its profile on the command line.
        None if asked.screening.is_some() => {
            let named = named.into_iter().filter(|found| found.kind != HostUseKind::Setting).collect();
            not_typed(named, &asked.settings, None)
        }
        None => not_typed(named, &asked.settings, asked.sides.as_ref()),
    };
    let named_by_file = with_whole_paths(named_by_file, &plan.origin);
    let is_untrusted = |is: &dyn Fn(&HostUse) -> bool| !asked.trust && named_by_file.iter().any(is);
    // Whether a file is there is not shown either.
    if !is_untrusted(&is_file) {
        web_files::read(&mut plan)?;
        command_files::find(&mut plan)?;
        own_disks::find(&mut plan)?;
    }
    plan.expand_profiles(|name| {
        let is_named = |found: &HostUse| found.kind == HostUseKind::Profile && found.value == name;
        host_settings::profile_settings(name).map_err(|failure| match is_untrusted(&is_named) {
            true => untrusted_file(name, "profile", "host plan"),
            false => failure,
        })
    })?;
    check_expanded(&plan)?;
    let planned = host_settings::look_up(&plan)?;
    let left_out = host_settings::left_out(&plan)?;
    let rivals = host_settings::rivals(Path::new("/proc"), &planned);
    host_settings::refuse_equal_sides(&plan, &planned)?;
    if let Some(Sides { a, b }) = &asked.sides {
        checks::sides_differ(&plan, !(a.is_empty() && b.is_empty()))?;
    }
    let of_image = Untrusted {
        specification: is_untrusted(&|found| ["image", "image.from"].contains(&found.key.as_str())),
        files: is_untrusted(&|found| found.key == "image.files"),
    };
    let image = ImageAsked::of_scenario(&plan.scenario, &plan.origin, of_image)?;
    // Only now: which image serves a third-party broker is resolved.
    image_check::check_built_in(&plan.scenario)?;
    enough_for_a_repeat(&plan)?;
    let out_of_reach = asked.sides.is_some().then(|| out_of_reach(&plan)).flatten();
    // A program that only the file names is not started before it is trusted, and firmware is not read.
    let is_asked = |found: &HostUse| found.kind == HostUseKind::Program || found.key == "qemu.firmware";
    if !is_untrusted(&is_asked) {
        qemu_check::check(&plan)?;
    }
    Ok(Prepared {
        plan,
        facts,
        image,
        scenario_text,
        named_by_file,
        trust: asked.trust,
        settings: planned,
        left_out,
        rivals,
        out_of_reach,
        site,
    })
}

impl Prepared {
    /// Whether only the scenario's file names something like this, and nobody trusts that file.
    pub(super) fn is_untrusted(&self, is: impl Fn(&HostUse) -> bool) -> bool {
        !self.trust && self.named_by_file.iter().any(is)
    }
}

pub(super) fn is_file(found: &HostUse) -> bool {
    found.kind == HostUseKind::File
}

/// What a scenario's file names, with the files' whole paths: the user is asked to trust those.
fn with_whole_paths(named: Vec<HostUse>, origin: &str) -> Vec<HostUse> {
    let scenario = std::path::absolute(origin).unwrap_or_else(|_| origin.into());
    let folder = scenario.parent().unwrap_or(Path::new(""));
    named.into_iter().map(|found| found.seen_from(folder)).collect()
}

/// Loads from client machines and a site file with such machines belong together.
fn site_of(asked: &Asked, scenario: &Scenario) -> Result<Option<Site>, Failure> {
    let is_from = |(key, value): (&String, &String)| key.ends_with(".from") && value == FROM_CLIENTS;
    // One of two sides may be sent from clients.
    let on_a_side = asked.sides.iter().any(|sides| sides.a.iter().chain(&sides.b).any(is_from));
    let sent = scenario.load.iter().find(|load| load.is_from_clients());
    let from_clients = sent.or_else(|| scenario.load.first().filter(|_| on_a_side));
    let has_clients = |site: &&Site| !site.clients.is_empty();
    match (asked.site.as_ref().filter(has_clients), from_clients) {
        (None, None) => Ok(None),
        (Some(site), Some(_)) => Ok(Some(site.clone())),
        (None, Some(load)) => Err(Failure::new(
            FailureCode::BadInput,
            format!("load `{}` is sent from client machines, and no site file names any", load.name),
            "add `--site FILE` with one [[client]] for each machine; docs/clients.md shows such a file",
        )),
        (Some(_), None) => {
            let load = scenario.load.first().map_or("NAME", |load| load.name.as_str());
            Err(Failure::new(
                FailureCode::BadInput,
                "the site file names client machines, and no load is sent from them",
                format!("add `--set load.{load}.from=clients`, or use a site file without [[client]]"),
            ))
        }
    }
}

/// Refuses to run what only the scenario's file names, unless the user trusts the file.
///
/// # Errors
/// When the file names a program or file of the host and `--trust` was not given; the message names all of them.
pub(crate) fn need_trust(asked: &Asked, prepared: &Prepared) -> Result<(), Failure> {
    let named = &prepared.named_by_file;
    if asked.trust || named.is_empty() {
        return Ok(());
    }
    let uses: Vec<String> = named.iter().map(ToString::to_string).collect();
    let first = &named[0];
    Err(Failure::new(
        FailureCode::BadInput,
        format!("the scenario {:?} needs trust: as root it {}", asked.scenario, uses.join(", ")),
        format!(
            "read the file; then add `--trust` if you trust its author, or give each value yourself, as with `--set {}`",
            shell_word(&format!("{}={}", first.key, first.as_flag()))
        ),
    ))
}

/// The resolved scenario of a plan, as a file that can be run; what two sides set is in comments above it.
///
/// # Errors
/// When a value of it has no form in TOML.
pub fn resolved(prepared: &Prepared) -> Result<String, Failure> {
    let plan = &prepared.plan;
    let text = tilemark_plan::resolved::as_toml(&plan.scenario).map_err(|error| {
        Failure::from_error(FailureCode::Bug, &error, "print the plan with `--json` instead")
    })?;
    let sides = plan.sides.iter().flat_map(|sides| [("A", &sides.a), ("B", &sides.b)]);
    let lines = sides.flat_map(|(side, settings)| {
        settings.iter().map(move |(key, value)| format!("# side {side}: {key} = {value}\n"))
    });
    Ok(format!("# As resolved, with seed {}.\n{}{text}", plan.seed, lines.collect::<String>()))
}

/// The name of the scenario that is asked for, which is resolved as far as no host is needed for it.
///
/// # Errors
/// When the scenario cannot be read or is wrong.
pub fn scenario_name(asked: &Asked) -> Result<String, Failure> {
    Ok(draft_of(asked)?.finish()?.name)
}

/// The same, of a scenario that the hosts of a fleet are to measure.
///
/// # Errors
/// When the scenario cannot be read or is wrong, or names a file by a relative path, which no host could find.
pub fn scenario_name_for_fleet(asked: &Asked) -> Result<String, Failure> {
    let draft = draft_of(asked)?;
    let relative = relative_paths(&draft)?;
    if relative.is_empty() {
        return Ok(draft.finish()?.name);
    }
    let named: Vec<String> =
        relative.iter().map(|RelativePath { key, path }| format!("{path:?} (`{key}`)")).collect();
    let message = format!(
        "the scenario {:?} names files by relative paths: {}. Each host of a fleet gets the text of the scenario in a folder of its own",
        asked.scenario,
        named.join(", ")
    );
    let remedy = "put them into the same place on each host, name them by absolute paths, and add `--trust`";
    Err(Failure::new(FailureCode::BadInput, message, remedy))
}

/// The scenario that is asked for, as far as no host is needed for it.
fn draft_of(asked: &Asked) -> Result<Draft, Failure> {
    let draft = Draft::from_toml(&text_of(&asked.scenario)?, &asked.scenario)?;
    Ok(as_asked(&draft, asked.preset.as_deref(), &asked.settings, asked.tiles.as_deref())?)
}

/// A seed from the kernel's random numbers. It has 32 bits: a person can type it, and every reader of JSON keeps it exactly.
pub fn drawn_seed() -> Result<u64, Failure> {
    let mut bytes = [0; 4];
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|error| {
        Failure::from_error(
            FailureCode::HostUnfit,
            &error,
            "the kernel gave no random numbers: choose a seed with `--seed`",
        )
    })?;
    Ok(u32::from_le_bytes(bytes).into())
}

/// A ladder that must end before one whole block of repeats would measure nothing, and a search before one repeat of its first count.
fn enough_for_a_repeat(plan: &Plan) -> Result<(), Failure> {
    let Some(within) = plan.within else { return Ok(()) };
    if let Some(search) = &plan.search {
        return enough_for_a_search(plan, within, search.within.unwrap_or(within));
    }
    let Some(first) = expect::ends_of_blocks(plan).next().filter(|first| *first > within) else {
        return Ok(());
    };
    Err(Failure::new(
        FailureCode::BadInput,
        format!("`--within {within}` ends before one whole repeat of every point"),
        format!(
            "one takes about {}, all of it {}: give it longer, or measure fewer points",
            first.rounded(),
            plan.expected.time.rounded()
        ),
    ))
}

/// The search proper has what is left of the time beside points on other backends and a twin.
fn enough_for_a_search(plan: &Plan, within: Span, left: Span) -> Result<(), Failure> {
    let Some(first) = plan.points.first() else { return Ok(()) };
    let needed = Span::new(expect::time_of(first));
    if needed <= left {
        return Ok(());
    }
    let others = within.get().saturating_sub(left.get());
    Err(Failure::new(
        FailureCode::BadInput,
        format!("`--within {within}` ends before one repeat of {}", counted(first.tiles, "tile")),
        format!(
            "it needs about {}, and an answer needs many: give it longer",
            Span::new(needed.get() + others).rounded()
        ),
    ))
}

/// The text of a scenario inside the program, or of a file: a name has no `/` and does not end in `.toml`.
pub fn text_of(scenario: &str) -> Result<String, Failure> {
    if !scenario.contains('/') && !scenario.ends_with(".toml") {
        let known: Vec<&str> = BUILTINS.iter().map(|builtin| builtin.name).collect();
        return builtin(scenario).map(|builtin| builtin.text.to_owned()).ok_or_else(|| {
            let remedy = format!(
                "there are: {}; to use a file, give a path with a `/` or a name that ends in `.toml`",
                known.join(", ")
            );
            Failure::new(FailureCode::BadInput, format!("no scenario `{scenario}`"), remedy)
        });
    }
    read_text(Path::new(scenario), SCENARIO_BYTES_MAX as u64).map_err(|error| {
        let message = format!("cannot read the scenario {scenario}");
        let remedy = "check the path; `tilemark scenarios list` shows those inside the program";
        Failure::caused_by(&error, FailureCode::BadInput, message, remedy)
    })
}

/// A scenario inside the program.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its name.
    pub name: &'static str,
    /// What it measures.
    pub about: String,
    /// Its presets; that of every scenario is last.
    pub presets: Vec<String>,
}

/// All scenarios inside the program.
pub fn scenarios() -> Vec<Listed> {
    let listed = |builtin: &tilemark_plan::builtin::Builtin| {
        let scenario = Draft::from_toml(builtin.text, builtin.name).ok()?.finish().ok()?;
        let presets = scenario.preset.keys().cloned().chain([HOST_PRESET.to_owned()]).collect();
        Some(Listed { name: builtin.name, about: scenario.about.trim().to_owned(), presets })
    };
    BUILTINS.iter().filter_map(listed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{TILE, ladder, plan_of, search};
    use std::{collections::BTreeSet, fs, time::Duration};

    #[test]
    fn a_time_in_which_no_repeat_ends_is_refused_and_that_of_one_is_not() {
        let clones = Request { backends: vec![Backend::Emulated], ..ladder() };
        let first = expect::ends_of_blocks(&plan_of(TILE, &clones)).next().unwrap();
        let refused = |within, request: &Request| {
            let plan = plan_of(TILE, &Request { within: Some(within), ..request.clone() });
            enough_for_a_repeat(&plan).err()
        };
        assert_eq!(refused(first, &clones), None);
        let shorter = Span::new(first.get() - Duration::from_secs(1));
        let failure = refused(shorter, &clones).unwrap();
        assert!(failure.remedy.contains(&format!("one takes about {}", first.rounded())), "{failure:?}");
    }

    #[test]
    fn a_search_without_time_for_one_repeat_of_its_first_count_is_refused() {
        let refused = |within| enough_for_a_repeat(&plan_of(TILE, &search(Some(within)))).err();
        let one = expect::time_of(&plan_of(TILE, &search(None)).points[0]);
        assert_eq!(refused(Span::new(one)), None, "it stops by what its next count takes");
        let failure = refused(Span::new(one - Duration::from_millis(1))).unwrap();
        assert!(failure.message.contains("ends before one repeat of 1 tile"), "{failure:?}");
        assert!(failure.remedy.contains(&format!("about {}", Span::new(one).rounded())), "{failure:?}");
    }

    #[test]
    fn a_seed_is_drawn_unless_one_is_asked_for() {
        let plan_with = |seed| {
            let asked =
                Asked { scenario: "web".to_owned(), on: Some(Backend::Native), seed, ..Asked::default() };
            prepare(&asked).unwrap().plan
        };
        let drawn: BTreeSet<u64> = (0..8).map(|_| plan_with(None).seed).collect();
        assert!(drawn.len() > 1, "eight times the same of four billion: {drawn:?}");
        assert_eq!(plan_with(Some(7)).seed, 7);
    }

    #[test]
    fn two_sides_get_twelve_pairs_unless_the_scenario_has_more_or_the_user_says_how_many() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.toml");
        for (of_scenario, asked, wanted) in
            [(3, None, 12), (16, None, 16), (16, Some("8"), 8), (3, Some("2"), 2)]
        {
            let text = format!(
                "schema = 1\nname = \"web\"\nabout = \"Web.\"\n[[guest]]\nname = \"web\"\nrole = \"web\"\n\
                 [ladder]\ntiles = [1]\n[measure]\nrepeats = {of_scenario}\n"
            );
            fs::write(&path, text).unwrap();
            let asked = Asked {
                scenario: path.to_str().unwrap().to_owned(),
                on: Some(Backend::Native),
                settings: asked.map(|pairs| (REPEATS.to_owned(), pairs.to_owned())).into_iter().collect(),
                sides: Some(Sides {
                    a: BTreeMap::new(),
                    b: [("guest.web.vcpus".to_owned(), "2".to_owned())].into(),
                }),
                ..Asked::default()
            };
            let plan = prepare(&asked).unwrap().plan;
            let pairs: Vec<u32> = plan.points.iter().map(|point| point.measure.repeats).collect();
            assert_eq!(pairs, [wanted, wanted], "{of_scenario} {:?}", asked.settings);
        }
    }
}

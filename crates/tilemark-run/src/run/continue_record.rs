//! `--more`: a closed record is continued. It is found, compared with what is asked now, and its account of who measured where with
//! what is added up.

use crate::{
    failure::{Failure, FailureCode},
    job::recover,
    job::types::{QEMU_HASH, RunDone},
    plan::host::{Probe, facts},
    plan::prepare::{Asked, scenario_name},
    run::record::plan_as_run,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::Path};
use tilemark_plan::{
    plan::{Backend, PLAN_SCHEMA, Pass, Plan, Point},
    resolve::passes,
    share::share_out,
};
use tilemark_record::{
    RunDirectory, Runs,
    places::Places,
    result::{GuestDisk, JUDGED_BY, Provenance, RESULT_SCHEMA, RunResult},
    sha256_of,
};
use tilemark_site::Client;

/// Larger is no QEMU.
const PROGRAM_BYTES_MAX: u64 = 1 << 30;
/// Letters of a run's id: more than its time and the longest name of a scenario have.
const RUN_ID_LETTERS_MAX: usize = 80;

/// The record that a run continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordToContinue {
    /// The newest of the scenario that was made on this host.
    Newest,
    /// The one with this id, unique start of an id, or path; or `last`.
    Named(String),
}

/// A record that is to be continued, with what it held before.
#[derive(Debug, Clone)]
pub(crate) struct EarlierRecord {
    pub(crate) record: RunDirectory,
    /// As it was planned for the first session.
    plan: Plan,
    pub(crate) result: RunResult,
    /// Whether a session that continued it was killed, and taken back now.
    pub(crate) was_restored: bool,
}

impl EarlierRecord {
    /// Finds the record that is to be continued and checks that it is whole.
    ///
    /// # Errors
    /// When there is none, or it was never closed, is damaged, or was written or judged by other rules than those of this program.
    pub(crate) fn find(places: &Places, which: &RecordToContinue, asked: &Asked) -> Result<Self, Failure> {
        let runs = &Runs::new(&places.runs);
        let record = match which {
            RecordToContinue::Named(run) => runs.find(run)?,
            RecordToContinue::Newest => {
                let host = facts(Probe::Skip).host_name.value().cloned().unwrap_or_default();
                newest(runs, &scenario_name(asked)?, &host)?
            }
        };
        let was_restored = recover::restore_record(places, &record)?;
        Ok(Self { was_restored, ..Self::at(record)? })
    }

    fn at(record: RunDirectory) -> Result<Self, Failure> {
        record.verify()?;
        let (plan, result) = (record.plan()?, record.result()?);
        let versions = [
            ("format of its plan", plan.schema, PLAN_SCHEMA),
            ("format of its result", result.schema, RESULT_SCHEMA),
            ("rules that judged it", result.judged_by, JUDGED_BY),
        ];
        if !is_run_id(&result.run) {
            return Err(refused(
                &result,
                "its id is none that a run is given, and would be the name of files",
            ));
        }
        if let Some((what, had, now)) = versions.into_iter().find(|(_, had, now)| had != now) {
            let why = format!("the {what}: version {had} in the record, {now} in this program");
            return Err(refused(&result, &why));
        }
        Ok(Self { record, plan, result, was_restored: false })
    }

    /// What is asked, with the seed of the record, and with its time where none is asked for.
    ///
    /// # Errors
    /// When another seed is asked for.
    pub(crate) fn asked(&self, asked: &Asked) -> Result<Asked, Failure> {
        if let Some(seed) = asked.seed.filter(|seed| *seed != self.plan.seed) {
            return Err(refused(&self.result, &differs("seed", &json!(self.plan.seed), &json!(seed))));
        }
        let within = asked.within.or(self.plan.within);
        Ok(Asked { seed: Some(self.plan.seed), within, ..asked.clone() })
    }

    /// Refuses another host, other settings, and other programs than those of the record.
    ///
    /// # Errors
    /// When one of them differs; the message names it.
    pub(crate) fn check(&self, now: &Plan, provenance: &Provenance) -> Result<(), Failure> {
        // Another run may have continued it while this one waited for its turn.
        let unchanged = Self::at(self.record.clone())?;
        if unchanged.result != self.result {
            return Err(refused(&self.result, "another run continued it meanwhile"));
        }
        if let Some(why) = difference(&self.plan, now) {
            return Err(refused(&self.result, &why));
        }
        self.check_hashes(provenance)?;
        let qemus = self.result.provenance.hashes.iter().filter_map(|(name, hash)| {
            let binary = Path::new(name.strip_prefix(QEMU_HASH)?);
            let now = may_be_program(binary).then(|| sha256_of(binary).ok()).flatten();
            Some((name, hash, now.unwrap_or_else(|| "unreadable".to_owned())))
        });
        let mut qemus = qemus.filter(|(_, had, now)| *had != now);
        let other = qemus.next().map(|(name, had, now)| hash_differs(name, Some(had), &now));
        other.map_or(Ok(()), |why| Err(refused(&self.result, &why)))
    }

    /// Refuses client machines that would not send the same tiles as before. The points are those of the plan of now: what a
    /// record names as its tiles may be anything.
    ///
    /// # Errors
    /// When a tile would have another client; the message names both.
    pub(crate) fn check_clients(&self, now: &Plan, clients: &[Client]) -> Result<(), Failure> {
        for repeat in self.record.summaries()? {
            let Some(point) = now.points.get(repeat.point) else { continue };
            let shares = share_out(self.plan.seed, repeat.block, point.tiles, clients.len() as u32);
            for (tile, had) in
                repeat.clients.iter().flat_map(|had| had.tiles.iter().map(move |tile| (tile, had)))
            {
                let place = tile.checked_sub(1).and_then(|tile| shares.get(tile as usize));
                let now = place.and_then(|place| clients.get(*place as usize)).map(|client| &client.name);
                if now != Some(&had.name) {
                    let now = now.map_or("nobody", String::as_str);
                    let why = format!(
                        "tile {tile} had its loads from client `{}`, and would have them from {now}",
                        had.name
                    );
                    return Err(refused(&self.result, &why));
                }
            }
        }
        Ok(())
    }

    /// Refuses another program, agent, scenario, image or disk than that of the record.
    ///
    /// # Errors
    /// When a hash differs; the message names it.
    pub(crate) fn check_hashes(&self, provenance: &Provenance) -> Result<(), Failure> {
        let is_same =
            |(had, now): &(&GuestDisk, &GuestDisk)| GuestDisk { kernel: None, ..(*had).clone() } == **now;
        let disks = &self.result.provenance.disks;
        if disks.len() != provenance.disks.len() {
            return Err(refused(&self.result, "its guests boot from other disks now"));
        }
        if let Some((had, now)) = disks.iter().zip(&provenance.disks).find(|pair| !is_same(pair)) {
            let why = format!(
                "guest `{}` booted {} ({}), and boots {} ({}) now",
                had.guest, had.file, had.mark, now.file, now.mark
            );
            return Err(refused(&self.result, &why));
        }
        let had = &self.result.provenance.hashes;
        let mut others = provenance.hashes.iter().filter(|(name, hash)| had.get(*name) != Some(hash));
        let other = others.next().map(|(name, hash)| hash_differs(name, had.get(name), hash));
        other.map_or(Ok(()), |why| Err(refused(&self.result, &why)))
    }

    /// The plan of the further session: that of now, with the points that a search added in earlier sessions. A ladder has as many blocks
    /// again, numbered on; a search finds its next repeats by itself.
    ///
    /// # Errors
    /// When the record cannot be read, or has a point that no search of this plan adds.
    pub(crate) fn plan_from_here(&self, now: &Plan) -> Result<Plan, Failure> {
        let mut plan = now.clone();
        // They are in the record alone, which may come from anybody, and the names in a point are paths later.
        for added in plan_as_run(&self.record)?.points.into_iter().skip(self.plan.points.len()) {
            if !is_added_by_search(&plan, &added) {
                let why = format!("its point {} is none that a search of this plan adds", plan.points.len());
                return Err(refused(&self.result, &why));
            }
            plan.points.push(added);
        }
        if plan.search.is_none() {
            let repeats = self.record.summaries()?;
            let before = repeats.iter().map(|repeat| repeat.block).max().unwrap_or(0);
            plan.passes = passes_from(&plan, before)
                .ok_or_else(|| refused(&self.result, "its repeats have numbers beyond all that a run has"))?;
        }
        Ok(plan)
    }

    /// The account of all sessions: what the first said, with times and sessions added up.
    pub(crate) fn with(&self, now: Provenance) -> Provenance {
        let had = self.result.provenance.clone();
        // They are the same disks: the kernel of one may be known since this session only.
        let disks = had.disks.into_iter().zip(now.disks);
        let disks = disks.map(|(had, now)| GuestDisk { kernel: now.kernel.or(had.kernel), ..had }).collect();
        Provenance {
            disks,
            seconds: had.seconds + now.seconds,
            expected_seconds: had.expected_seconds + now.expected_seconds,
            sessions: had.sessions + 1,
            as_it_was: now.as_it_was,
            left: now.left,
            changed_by_others: now.changed_by_others,
            hooks: if now.hooks.is_empty() { had.hooks } else { now.hooks },
            qemu: now.qemu.or(had.qemu),
            hashes: had.hashes.into_iter().chain(now.hashes).collect(),
            ..had
        }
    }

    /// What the engine said about this session, with doubts of earlier ones that their repeats do not show.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub(crate) fn with_doubts(&self, done: RunDone, judged_before: &RunResult) -> RunDone {
        let had = &self.result;
        let lost = |had: &[String], judged: &[String], now: &[String]| -> Vec<String> {
            had.iter().filter(|one| !judged.contains(one) && !now.contains(one)).cloned().collect()
        };
        let unequal = |of: &RunResult| of.cost.as_ref().map(|cost| cost.unequal.clone()).unwrap_or_default();
        let mut reasons = lost(&had.verdict.reasons, &judged_before.verdict.reasons, &done.reasons);
        let mut not_equal = lost(&unequal(had), &unequal(judged_before), &done.unequal);
        reasons.extend(done.reasons);
        not_equal.extend(done.unequal);
        let known = &had.provenance.hashes;
        let is_qemu = |name: &&String| name.starts_with(QEMU_HASH);
        if let Some(other) = done.hashes.keys().filter(is_qemu).find(|name| !known.contains_key(*name))
            && known.keys().any(|name| is_qemu(&name))
        {
            reasons.push(format!("a further session used another QEMU than those before: {other}"));
        }
        RunDone { reasons, unequal: not_equal, ..done }
    }
}

/// Whether a text can be the id of a run: its time and the name of its scenario. State folder and control group have it as their name; the
/// names of other jobs and of the lock's file begin with a letter.
fn is_run_id(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    text.len() <= RUN_ID_LETTERS_MAX
        && text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(is_plain)
}

/// Whether a path that a record names can be that of a program: a pipe, a device or a file of /proc might never end.
fn may_be_program(path: &Path) -> bool {
    let sizes = 1..=PROGRAM_BYTES_MAX;
    path.metadata().is_ok_and(|file| file.is_file() && sizes.contains(&file.len()))
}

/// Whether a search of this plan adds just this point next: one with another tile count than those it has, or the native twin of one.
fn is_added_by_search(plan: &Plan, added: &Point) -> bool {
    let Some(search) = &plan.search else { return false };
    let like = &plan.points[0];
    let has_backend = added.backend == like.backend || (search.twin && added.backend == Backend::Native);
    let is_known = |point: &Point| point.tiles == added.tiles && point.backend == added.backend;
    // A count beyond the limit is none that has to be worked out.
    has_backend && (1..=search.limit).contains(&added.tiles) && !plan.points.iter().any(is_known) && {
        let like = Point { backend: added.backend, ..like.clone() };
        json!(plan.point_at(&like, plan.points.len(), added.tiles)) == json!(added)
    }
}

/// As many blocks again as were planned, after `before`, each in an order of its own. None where there are no such numbers.
fn passes_from(plan: &Plan, before: u32) -> Option<Vec<Pass>> {
    let again = passes(&plan.points, plan.seed.wrapping_add(before.into()));
    let numbered_on = |pass: Pass| {
        let (block, repeat) = pass.block.checked_add(before).zip(pass.repeat.checked_add(before))?;
        Some(Pass { block, repeat, ..pass })
    };
    again.into_iter().map(numbered_on).collect()
}

/// The newest record of a scenario that was made on a host.
fn newest(runs: &Runs, scenario: &str, host: &str) -> Result<RunDirectory, Failure> {
    let is_of = |record: &RunDirectory| {
        record.plan().is_ok_and(|plan| plan.scenario.name == scenario && plan.host.name == host)
    };
    let ids = runs.ids();
    let mut records = ids.iter().rev().map(|id| RunDirectory::at(&runs.path_of(id)));
    records.find(is_of).ok_or_else(|| {
        Failure::new(
            FailureCode::BadInput,
            format!("no record of `{scenario}` from this host is there to continue"),
            "leave out --more to measure it for the first time, or name a record: `--more RUN`",
        )
    })
}

fn refused(result: &RunResult, why: &str) -> Failure {
    Failure::new(
        FailureCode::BadInput,
        format!("the run {} cannot be continued: {why}", result.run),
        format!(
            "leave out --more to make a new record, or continue another: `--more RUN`; this one was made by `{}`",
            result.provenance.command
        ),
    )
}

fn hash_differs(name: &str, had: Option<&String>, now: &str) -> String {
    let short = |hash: &str| hash.get(..12).unwrap_or(hash).to_owned();
    let had =
        had.map_or_else(|| "not in the record".to_owned(), |had| format!("{} in the record", short(had)));
    format!("`{name}` is another file, its SHA-256 is {had} and {} now", short(now))
}

fn differs(key: &str, had: &Value, now: &Value) -> String {
    let said = |value: &Value| if value.is_null() { "not given".to_owned() } else { value.to_string() };
    format!("`{key}` is {} in the record and {} now", said(had), said(now))
}

/// The first difference between the plan of a record and that of now, in words. What the time and the memory of the moment decide is
/// no difference, and neither is what was found while the plan was carried out.
fn difference(had: &Plan, now: &Plan) -> Option<String> {
    let (had, now) = (parts(had), parts(now));
    had.iter().zip(&now).find_map(|((key, had), (_, now))| first_difference(key, had, now))
}

/// The parts of a plan that must be equal, those first that say most about a difference. What the host's nodes decide is in the points;
/// their free huge pages are of the moment. The sizes of jobs are in the points too, and in older records nowhere else.
fn parts(plan: &Plan) -> [(&'static str, Value); 7] {
    let mut host = json!(plan.host);
    let mut search = json!(plan.search);
    let mut scenario = json!(plan.scenario);
    for load in scenario["load"].as_array_mut().into_iter().flatten() {
        load.pointer_mut("/jobs").and_then(Value::as_object_mut).map(|jobs| jobs.remove("fitted"));
    }
    for (of, keys) in
        [(&mut host, &["memory_available", "topology"][..]), (&mut search, &["within", "memory_end"])]
    {
        if let Some(of) = of.as_object_mut() {
            keys.iter().for_each(|key| drop(of.remove(*key)));
        }
    }
    [
        ("host", host),
        ("preset", json!(plan.preset)),
        ("settings", json!(plan.settings)),
        ("search", search),
        ("scenario", scenario),
        ("processors", json!(plan.processors)),
        ("points", json!(plan.points)),
    ]
}

fn first_difference(key: &str, had: &Value, now: &Value) -> Option<String> {
    if had == now {
        return None;
    }
    let deeper = match (had, now) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let missing = Value::Null;
            keys.into_iter().find_map(|part| {
                let of = |map: &serde_json::Map<String, Value>| map.get(part).unwrap_or(&missing).clone();
                first_difference(&format!("{key}.{part}"), &of(a), &of(b))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(place, (had, now))| first_difference(&format!("{key}[{place}]"), had, now)),
        _ => None,
    };
    // What is long is named and not printed.
    let is_short = |value: &Value| value.to_string().len() <= 60;
    deeper.or_else(|| match is_short(had) && is_short(now) {
        true => Some(differs(key, had, now)),
        false => Some(format!("`{key}` is another than in the record")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fakes::{Act, FakeWorld, Ran, TILE, answered, ladder, plan_of, run, run_on, search, started},
        run::result,
        stop::StopSignal,
    };
    use std::{collections::BTreeMap, fs};
    use tilemark_plan::{
        resolve::Request,
        workload::{JobKind, Work},
    };
    use tilemark_record::{Event, RecordError, summary::Levels};
    use tilemark_units::{Bytes, Span};

    fn world() -> FakeWorld {
        FakeWorld::new(|job, _| answered(job, 5))
    }

    fn closed(plan: &Plan) -> Ran {
        let ran = run(plan, &world(), &StopSignal::default());
        let provenance = Provenance { seconds: 10.0, sessions: 1, ..Provenance::default() };
        result::close(&ran.record, "1-first", provenance, None, &RunDone::default()).unwrap();
        ran
    }

    #[test]
    fn what_differs_from_the_record_is_named() {
        let had = plan_of(TILE, &search(None));
        let with = |change: &dyn Fn(&mut Plan)| {
            let mut now = had.clone();
            change(&mut now);
            difference(&had, &now)
        };
        let same = plan_of(TILE, &search(Some(Span::from_seconds(600))));
        assert_eq!(difference(&had, &same), None, "its time is its own");
        assert_eq!(with(&|now| now.host.memory_available = Bytes::from_gib(1)), None);
        let kernel = with(&|now| "6.2".clone_into(&mut now.host.kernel)).unwrap();
        assert_eq!(kernel, "`host.kernel` is \"6.1\" in the record and \"6.2\" now");
        let settings = BTreeMap::from([("measure.repeats".to_owned(), "4".to_owned())]);
        let setting = difference(&had, &plan_of(TILE, &Request { settings, ..search(None) })).unwrap();
        assert_eq!(setting, "`settings.measure.repeats` is not given in the record and \"4\" now");
        assert!(difference(&had, &plan_of(TILE, &ladder())).unwrap().starts_with("`search`"));
        let limit = difference(&had, &plan_of(&TILE.replace("64", "32"), &search(None))).unwrap();
        assert_eq!(limit, "`search.limit` is 64 in the record and 32 now");
    }

    #[test]
    fn sizes_of_jobs_that_an_older_record_has_in_its_points_only_are_no_difference() {
        let jobs = "schema = 1\nname = \"j\"\nabout = \"j\"\n[[guest]]\nname = \"g\"\nrole = \"compute\"\n[[load]]\nname = \"j\"\n\
                    guest = \"g\"\nloop = \"closed\"\n[load.jobs]\nmix = { sort = 1 }\n[ladder]\ntiles = [1]\n";
        let had = plan_of(jobs, &ladder());
        let mut now = had.clone();
        let Work::Jobs(of_scenario) = &mut now.scenario.load[0].work else { panic!("it has jobs") };
        of_scenario.fit(&[(JobKind::Sort, 1.0)].into());
        assert_eq!(difference(&had, &now), None);
        let Work::Jobs(of_point) = &mut now.points[0].loads[0].work else { panic!("it has jobs") };
        of_point.fit(&[(JobKind::Sort, 1.0)].into());
        assert!(difference(&had, &now).unwrap().starts_with("`points[0].loads[0].work."), "{had:?}");
    }

    #[test]
    fn a_seed_or_a_program_of_another_record_is_refused() {
        let ran = closed(&plan_of(TILE, &ladder()));
        let mut earlier = EarlierRecord::at(ran.record.clone()).unwrap();
        let asked = |seed| earlier.asked(&Asked { seed, ..Asked::default() });
        assert_eq!(asked(None).unwrap().seed, Some(1));
        assert!(asked(Some(2)).unwrap_err().message.contains("`seed` is 1 in the record and 2 now"));
        let of = |hash: &str| Provenance {
            hashes: [("agent".to_owned(), hash.to_owned())].into(),
            ..Provenance::default()
        };
        earlier.result.provenance = of("aa");
        earlier.check_hashes(&of("aa")).unwrap();
        let refused = earlier.check_hashes(&of("bb")).unwrap_err();
        assert!(refused.message.contains("`agent` is another file"), "{refused:?}");
    }

    #[test]
    fn a_ladder_has_as_many_blocks_again_numbered_on() {
        let plan = plan_of(TILE, &ladder());
        let ran = closed(&plan);
        let earlier = EarlierRecord::at(ran.record.clone()).unwrap();
        let on = earlier.plan_from_here(&plan).unwrap();
        let reopened = ran.record.reopen().unwrap();
        let ran = run_on(ran, &on, &world());
        ran.outcome.as_ref().unwrap();
        let blocks = |point| -> Vec<u32> {
            let repeats = ran.repeats();
            repeats.iter().filter(|repeat| repeat.point == point).map(|repeat| repeat.block).collect()
        };
        assert_eq!((blocks(0), blocks(1)), (vec![1, 2, 3, 4, 5, 6], vec![1, 2, 3, 4, 5, 6]));
        assert!(passes_from(&plan, u32::MAX).is_none(), "a record from elsewhere may have any number");
        let levels: Vec<Levels> = ran
            .repeats()
            .into_iter()
            .filter(|repeat| repeat.point == 0)
            .flat_map(|repeat| repeat.levels)
            .collect();
        let first = levels.first().unwrap();
        let sessions: Vec<u32> = levels.iter().map(|levels| levels.session).collect();
        assert_eq!(sessions, [1, 1, 1, 2, 2, 2]);
        assert!(levels.iter().all(|levels| levels.boot.len() == 16 && levels.boot == first.boot));
        assert!(levels.iter().all(|of| of.templates == first.templates), "one boot has one template");
        let now = Provenance { seconds: 5.0, sessions: 1, ..Provenance::default() };
        let sum = earlier.with(now);
        assert_eq!((sum.seconds, sum.sessions), (15.0, 2));
        drop(reopened);
        let result = result::close(&ran.record, "1-first", sum, None, &RunDone::default()).unwrap();
        assert_eq!(result.points[0].repeats_kept, 6);
        ran.record.verify().unwrap();
    }

    #[test]
    fn a_continuation_that_was_killed_leaves_an_unfinished_record_that_is_restored_and_continued() {
        let plan = plan_of(TILE, &ladder());
        let ran = closed(&plan);
        let before = ran.repeats();
        let on = EarlierRecord::at(ran.record.clone()).unwrap().plan_from_here(&plan).unwrap();
        let reopened = ran.record.reopen().unwrap();
        let dies = FakeWorld::new(|_, _| vec![started(), Act::Die]);
        let ran = run_on(ran, &on, &dies);
        assert!(ran.outcome.is_err());
        assert!(matches!(ran.record.verify(), Err(RecordError::Busy { .. })));
        let runs = Runs::new(ran.record.path().parent().unwrap());
        let listed = runs.list();
        assert_eq!((listed.len(), listed[0].verdict), (1, None), "a list says that it is unfinished");
        let home = tempfile::tempdir().unwrap();
        let places = Places {
            runs: ran.record.path().parent().unwrap().to_owned(),
            state: home.path().into(),
            cache: home.path().into(),
        };
        let which = RecordToContinue::Named(ran.record.path().to_str().unwrap().to_owned());
        let find = || EarlierRecord::find(&places, &which, &Asked::default());
        let busy = find().unwrap_err();
        assert!(busy.message.contains("a run writes the record"), "{busy:?}");
        drop(reopened);
        assert!(find().unwrap().was_restored);
        assert_eq!(ran.repeats(), before);
        ran.record.verify().unwrap();
        assert!(!find().unwrap().was_restored, "it is as before");
    }

    #[test]
    fn a_damaged_record_and_one_of_older_rules_are_refused() {
        let ran = closed(&plan_of(TILE, &ladder()));
        let path = ran.record.path().join("result.json");
        let text = fs::read_to_string(&path).unwrap();
        let older = text.replace(&format!("\"judged_by\": {JUDGED_BY}"), "\"judged_by\": 1");
        assert_ne!(older, text);
        fs::write(&path, older).unwrap();
        assert!(EarlierRecord::at(ran.record.clone()).unwrap_err().message.contains("damaged"));
        ran.record.close().unwrap();
        let refused = EarlierRecord::at(ran.record.clone()).unwrap_err();
        assert!(refused.message.contains("rules that judged it: version 1 in the record"), "{refused:?}");
    }

    /// A record with these points added, which is whole again.
    fn with_points(plan: &Plan, added: &[Point]) -> (Ran, EarlierRecord) {
        let ran = closed(plan);
        for point in added {
            let point = Box::new(point.clone());
            ran.record.events().unwrap().append(&Event::PointAdded { point }).unwrap();
        }
        ran.record.close().unwrap();
        let earlier = EarlierRecord::at(ran.record.clone()).unwrap();
        (ran, earlier)
    }

    #[test]
    fn a_record_from_elsewhere_adds_no_point_that_a_search_would_not() {
        let ladder = plan_of(TILE, &ladder());
        let search = plan_of(TILE, &search(None));
        let number = plan_as_run(&closed(&search).record).unwrap().points.len();
        assert!(number > search.points.len(), "it added some itself");
        let ours = search.point_at(&search.points[0], number, 3);
        let with = |change: &dyn Fn(&mut Point)| {
            let mut point = ours.clone();
            change(&mut point);
            point
        };
        let elsewhere = Point { backend: Backend::Emulated, ..ours.clone() };
        let beyond = Point { tiles: search.search.unwrap().limit + 1, ..ours.clone() };
        let hostile = [
            with(&|point| point.qemu.binary = Some("/hostile".to_owned())),
            with(&|point| point.guests[0].name = "../../outside".to_owned()),
            with(&|point| point.guests[0].name = "/outside".to_owned()),
            with(&|point| point.loads[0].name = "../outside".to_owned()),
            with(&|point| point.guests[0].memory = Bytes::from_gib(1 << 20)),
            with(&|point| point.measure.repeats = u32::MAX),
            with(&|point| point.tiles = u32::MAX),
            with(&|point| point.tiles = 0),
            with(&|point| point.index = 0),
            beyond,
            search.points[0].clone(),
            elsewhere,
        ];
        let refused = |plan: &Plan, points: &[Point]| {
            let (_ran, earlier) = with_points(plan, points);
            earlier.plan_from_here(plan).err().map(|refused| refused.message)
        };
        let is_named = |message: Option<String>, number: usize| {
            let named = format!(": its point {number} is none that a search of this plan adds");
            assert!(message.as_ref().is_some_and(|message| message.ends_with(&named)), "{message:?}");
        };
        hostile.iter().for_each(|point| is_named(refused(&search, std::slice::from_ref(point)), number));
        is_named(refused(&search, &[ours.clone(), ours.clone()]), number + 1);
        is_named(
            refused(&ladder, &[ladder.point_at(&ladder.points[0], ladder.points.len(), 3)]),
            ladder.points.len(),
        );
        let (_ran, earlier) = with_points(&search, std::slice::from_ref(&ours));
        assert_eq!(earlier.plan_from_here(&search).unwrap().points[number..], [ours]);
    }

    #[test]
    fn a_further_session_has_the_plan_of_now_whatever_else_the_record_says() {
        let now = plan_of(TILE, &search(None));
        let mut had = now.clone();
        had.passes.clear();
        had.confirm_blocks = u32::MAX;
        let (_ran, earlier) = with_points(&had, &[]);
        let mut on = earlier.plan_from_here(&now).unwrap();
        on.points.truncate(now.points.len());
        assert!(on == now);
    }

    #[test]
    fn an_id_that_is_a_path_and_a_program_that_never_ends_are_refused() {
        let plan = plan_of(TILE, &ladder());
        let (ran, mut earlier) = with_points(&plan, &[]);
        let hash = (format!("{QEMU_HASH}/dev/zero"), "aa".to_owned());
        earlier.result.provenance.hashes = [hash].into();
        ran.record.write_json("result.json", &earlier.result).unwrap();
        ran.record.close().unwrap();
        let refused = earlier.check(&plan, &Provenance::default()).unwrap_err();
        assert!(refused.message.contains("/dev/zero` is another file"), "{refused:?}");
        let long = "1".repeat(RUN_ID_LETTERS_MAX + 1);
        for id in
            ["", "..", "../../x", "/mnt", "1/b", "1/..", "1.2", ".host", "lock", "guests-1", "1\n", &long]
        {
            id.clone_into(&mut earlier.result.run);
            ran.record.write_json("result.json", &earlier.result).unwrap();
            ran.record.close().unwrap();
            let refused = EarlierRecord::at(ran.record.clone()).unwrap_err();
            assert!(refused.message.contains("its id is none that a run is given"), "{id}: {refused:?}");
        }
    }

    #[test]
    fn the_newest_record_of_the_scenario_on_this_host_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let runs = Runs::new(folder.path());
        let plan = plan_of(TILE, &ladder());
        let mut other = plan.clone();
        "elsewhere".clone_into(&mut other.host.name);
        for (id, plan) in [("1-t", &plan), ("2-t", &plan), ("3-t", &other)] {
            RunDirectory::create(&runs.path_of(id), plan).unwrap();
        }
        assert!(newest(&runs, "t", "testhost").unwrap().path().ends_with("2-t"));
        let none = newest(&runs, "web", "testhost").unwrap_err();
        assert!(none.message.contains("no record of `web`"), "{none:?}");
    }
}

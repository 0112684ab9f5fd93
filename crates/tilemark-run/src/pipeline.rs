//! The pipeline: pass after pass over the plan's points, each with fresh guests, until the plan is done, a
//! search has its answer, something fails or the user wants it to end.
//!
//! ```text
//! for each pass:  enough memory? -> start guests -> all ready -> drive and watch -> end guests -> write
//! ```
//! It sees guests, loads and host only through [`World`], so that every step can be failed once in a test.
//! Whatever happens in a pass, its guests are gone when it ends.

use crate::{
    disk_check,
    drive::{self, Driven, Measurement},
    engine::{Teller, Wish, Wishes},
    figures::Figures,
    measure::state_failed,
    memory,
    network_check::Ports,
    room::{self, DISK_RESERVE},
    services,
    state::boot_id,
    watch,
    wire::{Failure, FailureCode, Progress},
};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fs,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tilemark_agent_protocol::Request;
use tilemark_guests::{
    Backend, GuestError, GuestId, Origin, ReadyGuest, StartEvent, StartMode, TemplateId, Wanted,
    start_all_ready, stop_all, write_working_sets,
};
use tilemark_host::telemetry::Pss;
use tilemark_plan::{
    expect,
    plan::{self, GuestPlan, MemoryEnd, Pass, Plan, Point},
    resolve::passes,
    scenario::{Role, Start},
};
use tilemark_record::{
    Event, Events, RunDirectory,
    summary::{Incident, IncidentKind, Levels, MemoryFigures, RepeatSummary, SecondsToReady},
};
use tilemark_statistics::judge::{self, CapacitySearch, Ended, Known, Next};
use tilemark_units::{Bytes, Span, counted};

/// After so many repeats of a count that were all discarded a search goes on below it. With nothing that holds there is no
/// other way to an answer, and it is measured once more than for its figure.
fn discarded_max(known: &Known, repeats: u32) -> u32 {
    if known.held().is_some() { 2 } else { repeats + 1 }
}

/// All that a pipeline needs of the world.
pub(crate) trait World {
    /// The way for the guests of a point to exist.
    fn backend(&self, point: &Point) -> Result<&dyn Backend, Failure>;
    /// A fresh load process.
    fn load_process(&self, plan: &Plan) -> Result<Box<dyn drive::LoadProcess>, Failure>;
    /// Memory that could be had now.
    fn memory_available(&self) -> Option<Bytes>;
    /// Free space where data disks and the record are.
    fn disk_available(&self) -> Option<Bytes>;
    /// Proportional memory of a process.
    fn pss(&self, pid: u32) -> Option<Pss>;
    /// Who is watched besides the guests: Tilemark itself.
    fn own_processes(&self) -> Vec<u32>;
    /// Puts the data disks of a point's guests in place where they begin with something on them, and says how long
    /// their templates took that were not there.
    fn prepare_disks(&self, _: &Point, _: &dyn Fn(&str)) -> Result<Duration, Failure> {
        Ok(Duration::ZERO)
    }
    /// Errors that the host's kernel reported since this was asked last.
    fn kernel_errors(&self) -> Vec<String> {
        Vec::new()
    }
    /// What does not stand between guests on this host, in a sentence.
    fn missing_wall(&self) -> Option<String> {
        None
    }
    /// Who watches the host.
    fn watch(&self) -> &dyn drive::Watch {
        &watch::LiveWatch
    }
}

/// A pipeline over one plan.
pub(crate) struct Pipeline<'a, W> {
    /// The world.
    pub(crate) world: &'a W,
    /// What shall happen; a search adds points.
    pub(crate) plan: Plan,
    /// Where figures go.
    pub(crate) record: RunDirectory,
    /// What happened.
    pub(crate) events: Events,
    /// Who is told.
    pub(crate) teller: &'a Teller,
    /// What the user wants.
    pub(crate) wishes: &'a Wishes,
    /// Every repeat up to now.
    pub(crate) repeats: Vec<RepeatSummary>,
    /// How many of them earlier sessions measured, where a closed record is continued.
    pub(crate) continued_after: Option<usize>,
    /// When the first pass began.
    pub(crate) began: Instant,
    /// Seconds of passes that are behind, as they were expected.
    pub(crate) expected_done: f64,
    /// Time spent on templates. They are made once, so it says nothing of how long passes take.
    pub(crate) on_templates: Duration,
}

/// A kernel that reports one error mostly reports many; the first tell.
const KERNEL_ERRORS_KEPT: usize = 8;

impl<W: World> Pipeline<'_, W> {
    /// Does all of it.
    pub(crate) fn run(&mut self) -> Result<(), Failure> {
        self.event(match self.continued_after {
            None => Event::Began { unix_ms: unix_ms(), run: self.plan.scenario.name.clone() },
            Some(_) => Event::Continued { unix_ms: unix_ms() },
        })?;
        if let Some(missing) = self.world.missing_wall() {
            self.note(missing)?;
        }
        let planned: Vec<Pass> = self.plan.passes.clone();
        if self.plan.search.is_some() {
            self.search()?;
        }
        if self.in_turn(&planned)? && self.plan.search.is_none() {
            self.ask_again(&planned)?;
        }
        if self.wishes.now() != Wish::GoOn {
            self.event(Event::Interrupted)?;
        }
        self.event(Event::Ended { unix_ms: unix_ms() })
    }

    /// The planned passes; says whether the time was enough for all of them.
    fn in_turn(&mut self, planned: &[Pass]) -> Result<bool, Failure> {
        let searched = self.plan.search.map(|_| self.plan.points[0].backend);
        for block in planned.chunk_by(|one, next| one.block == next.block) {
            if searched.is_none() && !self.time_allows_block(block) {
                self.note(format!("stopped after {} whole repeats, to keep the time", block[0].block - 1))?;
                return Ok(false);
            }
            for pass in block {
                // A search has measured its own backend already, and what is only shown is shown once.
                let was_shown =
                    searched.is_some() && self.repeats_before().any(|old| old.point == pass.point);
                let is_due = searched != Some(self.plan.points[pass.point].backend) && !was_shown;
                if is_due && self.wishes.now() == Wish::GoOn {
                    self.pass(*pass)?;
                }
            }
        }
        Ok(true)
    }

    /// Retries repeats that were discarded, each point at most as often again as was planned: a reason that lasts would
    /// void them for ever. Each further block has the order of a planned one.
    fn ask_again(&mut self, planned: &[Pass]) -> Result<(), Failure> {
        let blocks: Vec<&[Pass]> = planned.chunk_by(|one, next| one.block == next.block).collect();
        for block in &blocks {
            let lacking = self.lacking();
            let number = blocks.len() as u32 + block[0].block;
            let again = block.iter().filter(|pass| lacking.contains(&pass.point));
            let again: Vec<Pass> =
                again.map(|pass| Pass { block: number, repeat: number, ..*pass }).collect();
            if again.is_empty() || self.wishes.now() != Wish::GoOn {
                return Ok(());
            }
            if !self.time_allows_block(&again) {
                return self.note("discarded repeats are not retried, to keep the time".to_owned());
            }
            self.note("repeats that were discarded are retried".to_owned())?;
            self.expect_besides(&again);
            for pass in again {
                if self.wishes.now() == Wish::GoOn {
                    self.pass(pass)?;
                }
            }
        }
        Ok(())
    }

    /// Points of which fewer repeats count than were planned. Those of one step are compared block by block, as two sides
    /// are or guests and their twin, and lack a repeat together. Figures of an emulator are no measure: they lack nothing.
    fn lacking(&self) -> BTreeSet<usize> {
        let is_measured = |point: &&Point| !self.plan.host.emulates(point.backend);
        let mut steps: BTreeMap<_, Vec<&Point>> = BTreeMap::new();
        for point in self.plan.points.iter().filter(is_measured) {
            steps.entry((point.tiles, &point.vary)).or_default().push(point);
        }
        let lacks = |step: &&Vec<&Point>| {
            let wanted = step.iter().map(|point| point.measure.repeats).min().unwrap_or(0);
            judge::blocks_settled(step, &self.repeats) < wanted
        };
        steps.values().filter(lacks).flatten().map(|point| point.index).collect()
    }

    /// Takes passes that were not planned into the time that all of it is expected to take.
    fn expect_besides(&mut self, passes: &[Pass]) {
        let time: Duration = passes.iter().map(|pass| expect::time_of(&self.plan.points[pass.point])).sum();
        let expected = &mut self.plan.expected.time;
        *expected = Span::new(expected.get() + time);
    }

    /// Searches for the largest count that holds, and measures it beside its twin where that is asked. Its further repeats
    /// may turn the boundary: then the search goes on, and its next answer has a twin of its own.
    fn search(&mut self) -> Result<(), Failure> {
        let wanted = self.plan.search.expect("asked for by the caller");
        let like = self.plan.points[0].clone();
        let mut search = CapacitySearch::new(wanted.from, wanted.limit, like.measure.repeats);
        if self.continued_after.is_some() {
            search = search.continued(&self.known(&like));
        }
        let mut met = BTreeSet::new();
        let mut within = wanted.within;
        loop {
            self.search_on(&mut search, &like, within)?;
            let Some(held) = self.known(&like).held().filter(|_| wanted.twin) else { return Ok(()) };
            let guests = self.point_with(&like, held);
            // Each count meets its twin once in a session.
            if !met.insert(held) || !self.beside_twin(&guests)? {
                return Ok(());
            }
            // Nothing is kept back for the twin any more.
            let idle = expect::time_of_idle_power(&self.plan.host);
            within = self.plan.within.map(|within| Span::new(within.get().saturating_sub(idle)));
        }
    }

    /// What all repeats up to now say of the counts of a search.
    fn known(&self, like: &Point) -> Known {
        let points: Vec<&Point> =
            self.plan.points.iter().filter(|point| point.backend == like.backend).collect();
        Known::of(&points, &self.repeats)
    }

    /// Repeats of a count, each in a block with one of its native twin, until as many blocks count as repeats were wanted; at
    /// most as many again, since a reason that lasts would void them for ever. Says no where nothing was measured.
    fn beside_twin(&mut self, guests: &Point) -> Result<bool, Failure> {
        let like = Point { backend: plan::Backend::Native, ..guests.clone() };
        let twin = self.point_with(&like, guests.tiles);
        let is_first = self.plan.points.iter().all(|point| point.backend != twin.backend);
        let wanted = guests.measure.repeats;
        let seed = self.plan.seed.wrapping_add(self.blocks_before().into());
        let order = passes(&[guests.clone(), twin.clone()], seed);
        let pairs: Vec<&[Pass]> = order.chunk_by(|one, next| one.block == next.block).collect();
        for done in 0..2 * wanted {
            let is_settled = judge::blocks_settled(&[guests, &twin], &self.repeats) >= wanted;
            if is_settled || self.wishes.now() != Wish::GoOn {
                break;
            }
            if let Some(why) = self.why_no_pair(guests, &twin) {
                self.note(why)?;
                break;
            }
            self.add(&twin)?;
            let pair = pairs[(done % wanted) as usize];
            if !is_first || done >= wanted {
                self.expect_besides(pair);
            }
            let block = self.next_block(&[guests.index, twin.index]);
            for pass in pair {
                if self.wishes.now() == Wish::GoOn {
                    let repeat = self.repeats_of(pass.point) + 1;
                    self.pass(Pass { block, point: pass.point, repeat })?;
                }
            }
        }
        Ok(twin.index < self.plan.points.len())
    }

    /// Why no further repeat of guests is measured beside one of their twin.
    fn why_no_pair(&self, guests: &Point, twin: &Point) -> Option<String> {
        if let Err(failure) = self.fits(guests).and_then(|()| self.fits(twin)) {
            return Some(format!("no further repeat beside the native twin: {}", failure.message));
        }
        let needed = expect::time_of(guests) + expect::time_of(twin);
        (!self.time_allows_more(needed))
            .then(|| "no further repeat beside the native twin, to keep the time".to_owned())
    }

    /// Goes on with a search until it is sure of its answer or its time is over; says which.
    fn search_on(
        &mut self,
        search: &mut CapacitySearch,
        like: &Point,
        within: Option<Span>,
    ) -> Result<(), Failure> {
        loop {
            let known = self.known(like);
            let tiles = match search.next(&known) {
                Next::Probe(tiles) => tiles,
                Next::Ended(why) => return self.note_end(why),
            };
            if self.wishes.now() != Wish::GoOn {
                return Ok(());
            }
            let point = self.point_with(like, tiles);
            if !self.time_allows(like, search, &known, tiles, within) {
                if search.settle() {
                    if known.repeats(tiles) == 0 {
                        self.note(format!("{} not tried, to keep the time", counted(tiles, "tile")))?;
                    }
                    continue;
                }
                return self.note("the time ended before the search was sure of its answer".to_owned());
            }
            if let Err(failure) = self.fits(&point) {
                self.note(failure.message)?;
                // Below what does not fit there may be more than what was found to hold.
                let most = self.most_that_fits(like, tiles);
                self.note_memory_end(&self.point_with(like, most.unwrap_or(0) + 1))?;
                match most {
                    Some(most) if search.never_pass(most, &known) => continue,
                    _ => return Ok(()),
                }
            }
            self.add(&point)?;
            let (block, repeat) = (self.next_block(&[point.index]), self.repeats_of(point.index) + 1);
            self.pass(Pass { block, point: point.index, repeat })?;
            self.report_probe(search, like, &point)?;
        }
    }

    /// Reports what a count does by now. One of which nothing is known is measured again, but not for ever.
    fn report_probe(
        &mut self,
        search: &mut CapacitySearch,
        like: &Point,
        point: &Point,
    ) -> Result<(), Failure> {
        let known = self.known(like);
        let tiles = counted(point.tiles, "tile");
        if known.repeats(point.tiles) > 0 {
            let word = known.word(point.tiles).unwrap_or("undecided");
            self.teller.note(format!("{tiles}: {word}"));
        } else if self.repeats_of(point.index) >= discarded_max(&known, like.measure.repeats) {
            self.note(format!("{tiles}: cannot tell"))?;
            search.cannot_tell(point.tiles);
        }
        Ok(())
    }

    fn note_end(&mut self, why: Ended) -> Result<(), Failure> {
        match why {
            Ended::Sure => self.note("the search is sure of its answer".to_owned()),
            Ended::NotSure => self
                .note("the search took as many repeats as it may and is not sure of its answer".to_owned()),
            Ended::NothingKnown => Ok(()),
        }
    }

    /// Records that memory was what ended a search.
    fn note_memory_end(&mut self, point: &Point) -> Result<(), Failure> {
        let Some(free) = self.world.memory_available() else { return Ok(()) };
        let end = MemoryEnd {
            tiles: point.tiles,
            needed: expect::memory_of(point),
            free,
            reserve: expect::memory_reserve(self.plan.host.memory_total),
        };
        let Some(search) = &mut self.plan.search else { return Ok(()) };
        if free.saturating_sub(end.needed) >= end.reserve
            || search.memory_end.is_some_and(|known| known.tiles <= end.tiles)
        {
            return Ok(());
        }
        search.memory_end = Some(end);
        self.event(Event::DoesNotFit { end })
    }

    /// The point with so many tiles: the plan's, or one that is not in it yet.
    fn point_with(&self, like: &Point, tiles: u32) -> Point {
        let known =
            self.plan.points.iter().find(|point| point.tiles == tiles && point.backend == like.backend);
        known.cloned().unwrap_or_else(|| self.plan.point_at(like, self.plan.points.len(), tiles))
    }

    /// Takes a point into the plan, unless it is there.
    fn add(&mut self, point: &Point) -> Result<(), Failure> {
        if point.index == self.plan.points.len() {
            self.event(Event::PointAdded { point: Box::new(point.clone()) })?;
            self.plan.points.push(point.clone());
        }
        Ok(())
    }

    /// The largest count below one that does not fit.
    fn most_that_fits(&self, like: &Point, below: u32) -> Option<u32> {
        (1..below).rev().find(|tiles| self.fits(&self.point_with(like, *tiles)).is_ok())
    }

    fn repeats_of(&self, point: usize) -> u32 {
        self.repeats.iter().filter(|repeat| repeat.point == point).count() as u32
    }

    /// Repeats of earlier sessions.
    fn repeats_before(&self) -> impl Iterator<Item = &RepeatSummary> {
        self.repeats.iter().take(self.continued_after.unwrap_or(0))
    }

    /// The highest block of earlier sessions. Each block has schedules of its own: a further session repeats none.
    fn blocks_before(&self) -> u32 {
        self.repeats_before().map(|repeat| repeat.block).max().unwrap_or(0)
    }

    /// A block that none of these points has had.
    fn next_block(&self, points: &[usize]) -> u32 {
        let own = self.repeats.iter().filter(|repeat| points.contains(&repeat.point));
        own.map(|repeat| repeat.block).max().unwrap_or(0).max(self.blocks_before()) + 1
    }

    /// Whether a block of repeats would end in time.
    fn time_allows_block(&self, block: &[Pass]) -> bool {
        self.time_allows_more(block.iter().map(|pass| expect::time_of(&self.plan.points[pass.point])).sum())
    }

    /// Whether what takes so long would end in time.
    fn time_allows_more(&self, needed: Duration) -> bool {
        let Some(within) = self.plan.within else { return true };
        let before = expect::time_of_idle_power(&self.plan.host);
        before + self.began.elapsed() + needed.mul_f64(self.pace()) <= within.get()
    }

    /// Whether one more repeat of a count would end in time, and leave enough of it to measure both ends of the answer afterwards.
    fn time_allows(
        &self,
        like: &Point,
        search: &CapacitySearch,
        known: &Known,
        tiles: u32,
        within: Option<Span>,
    ) -> bool {
        let Some(within) = within else { return true };
        let time = |tiles: u32| expect::time_of(&self.point_with(like, tiles));
        let is_new = known.repeats(tiles) == 0;
        let kept_back: Duration = match search.is_settled() || !is_new {
            true => Duration::ZERO,
            false => search.to_confirm(known, tiles).into_iter().map(time).sum(),
        };
        let needed = (time(tiles) + kept_back).mul_f64(self.pace());
        self.began.elapsed() + needed <= within.get()
    }

    /// How much longer or shorter than expected all took that is behind.
    fn pace(&self) -> f64 {
        let took = self.began.elapsed().saturating_sub(self.on_templates).as_secs_f64();
        if self.expected_done > 0.0 { (took / self.expected_done).clamp(0.3, 3.0) } else { 1.0 }
    }

    /// Stops before memory or disk would fall under what must stay free.
    fn fits(&self, point: &Point) -> Result<(), Failure> {
        let remedy = "end other programs, or lower the number of tiles";
        let reserve = expect::memory_reserve(self.plan.host.memory_total);
        let needed = expect::memory_of(point);
        if let Some(free) = self.world.memory_available().filter(|free| free.saturating_sub(needed) < reserve)
        {
            let message = format!(
                "{} tiles need {} of memory, {} is free and {} must stay so",
                point.tiles,
                needed.rounded(),
                free.rounded(),
                reserve.rounded()
            );
            return Err(Failure::told(FailureCode::HostUnfit, message, remedy));
        }
        // A search adds points that were not known before the run.
        room::enough_files(std::slice::from_ref(point))?;
        if let Some(free) = self.world.disk_available().filter(|free| *free < DISK_RESERVE) {
            let message = format!("only {} of disk space is left, {DISK_RESERVE} must be", free.rounded());
            return Err(Failure::told(FailureCode::HostUnfit, message, "free some space"));
        }
        Ok(())
    }

    /// One pass: fresh guests, one measurement, nothing left.
    fn pass(&mut self, pass: Pass) -> Result<(), Failure> {
        let point = self.plan.points[pass.point].clone();
        self.fits(&point)?;
        self.event(Event::PassBegan { unix_ms: unix_ms(), pass })?;
        let outcome = self.measured(&point, pass);
        match outcome {
            Ok(Some(())) => self.event(Event::PassEnded { pass })?,
            // Interrupted: a pass that is not whole does not count.
            Ok(None) => {}
            Err(failure) => {
                self.event(Event::PassFailed { pass, message: failure.message.clone() })?;
                return Err(failure);
            }
        }
        self.expected_done += expect::time_of(&point).as_secs_f64();
        Ok(())
    }

    fn measured(&mut self, point: &Point, pass: Pass) -> Result<Option<()>, Failure> {
        let world = self.world;
        let backend = world.backend(point)?;
        let tiles = counted(point.tiles, "tile");
        let what = format!("{tiles} on {}, repeat {}", point.backend.name(), pass.repeat);
        self.on_templates += world.prepare_disks(point, &|doing| self.progress(doing.to_owned()))?;
        if self.wishes.now() != Wish::GoOn {
            return Ok(None);
        }
        self.progress(format!("{what}: starting {}", counted(point.guests.len() as u64, "guest")));
        let mut started = Started::new(backend);
        let modes = started.templates(point)?;
        self.on_templates += modes.took;
        let began = Instant::now();
        let free_before = world.memory_available();
        let mut guests = started.start(point, &modes, &|| ())?;
        let ready_s = began.elapsed().as_secs_f64();
        let since = |guest: &ReadyGuest| guest.ready_at.saturating_duration_since(began).as_secs_f64();
        let seconds_to_ready = SecondsToReady::of(guests.iter().map(since).collect());
        self.event(Event::GuestsReady { seconds: ready_s, guests: guests.len() as u32 })?;
        // As with readiness: a guest that cannot do it, or does not answer, is not measured.
        write_working_sets(&mut guests, &point.guests, services::working_sets_within(point))
            .map_err(guest_failed)?;

        self.progress(format!("{what}: under load"));
        let mut load = world.load_process(&self.plan)?;
        let began_unix_ms = unix_ms();
        let measurement = Measurement {
            plan: &self.plan,
            point,
            block: pass.block,
            backend,
            own_processes: world.own_processes(),
            watch: world.watch(),
            wishes: self.wishes,
        };
        let ports_before = Ports::read(backend, &guests);
        let driven = drive::drive(&measurement, &mut guests, load.as_mut())?;
        let ports = Ports::read(backend, &guests);
        drop(load);
        let Some(mut driven) = driven else {
            started.stop()?;
            return Ok(None);
        };
        let free_after = world.memory_available();
        let memory = memory_of(world, backend, &guests)
            .map(|memory| memory::beside_available(memory, point.backend, free_before, free_after));
        let mut incidents = incidents(backend, &guests, point);
        // What it asked of guests is not known then.
        let load_was_refused = driven.refused.iter().any(|incident| incident.guest.is_none());
        // Who was refused is not asked any more.
        incidents.append(&mut driven.refused);
        incidents.extend(services_ended(point, &mut guests, &incidents));
        if !load_was_refused {
            incidents.extend(ports.offences(&ports_before, point, &driven.told));
        }
        let consoles = guests.iter().map(|guest| backend.console(guest.id).ok()).collect::<Vec<_>>();
        drop(guests);
        started.stop()?;
        let mut kernel_errors = world.kernel_errors();
        kernel_errors.truncate(KERNEL_ERRORS_KEPT);
        let levels = self.levels(&modes)?;
        let besides =
            Besides { began_unix_ms, ready_s, seconds_to_ready, memory, incidents, kernel_errors, levels };
        self.write(point, pass, driven, besides)?;
        self.keep_consoles(point, pass, &consoles)?;
        Ok(Some(()))
    }

    fn write(&mut self, point: &Point, pass: Pass, driven: Driven, besides: Besides) -> Result<(), Failure> {
        let Besides {
            began_unix_ms,
            ready_s,
            seconds_to_ready,
            memory,
            mut incidents,
            kernel_errors,
            levels,
        } = besides;
        self.keep_tool_outputs(point, pass, &driven)?;
        let Figures { loads, seconds, latency } =
            driven.told.figures(point, pass.repeat).map_err(|error| {
                Failure::new(
                    FailureCode::Bug,
                    &error,
                    "report it: the load process and this program disagree",
                )
            })?;
        incidents.extend(disk_check::overstatements(point, &driven.told, &driven.disks));
        incidents.extend(driven.told.unaudited(point));
        incidents.extend(driven.told.findings(point));
        let summary = RepeatSummary {
            point: point.index,
            repeat: pass.repeat,
            block: pass.block,
            began_unix_ms,
            backend: point.backend,
            loads,
            host: watch::figures(
                &driven.host,
                self.plan.host.memory_total.get(),
                &self.plan.processors.guests,
            ),
            incidents,
            memory,
            ready_s: Some(ready_s),
            seconds_to_ready,
            kernel_errors,
            levels: Some(levels),
        };
        let files = self.record.repeat(point.index, pass.repeat).map_err(crate::measure::record_failed)?;
        let telemetry = watch::rows(point.index, pass.repeat, &driven.host.seconds);
        let guests = watch::guest_rows(point, pass.repeat, &driven.host.seconds);
        files
            .write(&summary, &seconds, &telemetry, guests, &latency)
            .map_err(crate::measure::record_failed)?;
        self.repeats.push(summary);
        Ok(())
    }

    /// What a repeat of this session shares with others.
    fn levels(&self, modes: &Modes) -> Result<Levels, Failure> {
        let of_before = |repeat: &RepeatSummary| repeat.levels.as_ref().map_or(1, |levels| levels.session);
        let before = self.repeats_before().map(of_before).max().unwrap_or(0);
        let boot = crate::sha256(boot_id().map_err(state_failed)?.as_bytes());
        let mut templates: Vec<u64> = modes.templates.values().map(|template| template.number()).collect();
        templates.sort_unstable();
        Ok(Levels { session: before + 1, boot: boot[..16].to_owned(), templates })
    }

    /// Puts what the tools behind the loads said beside the figures of their repeat.
    fn keep_tool_outputs(&self, point: &Point, pass: Pass, driven: &Driven) -> Result<(), Failure> {
        let files = self.record.repeat(point.index, pass.repeat).map_err(crate::measure::record_failed)?;
        for (place, output) in driven.told.tool_outputs() {
            let load = &point.loads[place as usize];
            let folder = files
                .guest(&point.guests[load.guest as usize].name)
                .map_err(crate::measure::record_failed)?;
            let kind = if output.starts_with('{') { "json" } else { "txt" };
            let path = folder.join(format!("{}.{kind}", load.name));
            tilemark_record::write_whole(&path, output.as_bytes()).map_err(crate::measure::record_failed)?;
        }
        Ok(())
    }

    /// Puts each guest's console beside the figures of its repeat. One that failed stays where its error
    /// says that it is.
    fn keep_consoles(&self, point: &Point, pass: Pass, consoles: &[Option<PathBuf>]) -> Result<(), Failure> {
        let files = self.record.repeat(point.index, pass.repeat).map_err(crate::measure::record_failed)?;
        for (guest, console) in point.guests.iter().zip(consoles) {
            let Some(console) = console.as_ref().filter(|path| path.starts_with(self.record.path())) else {
                continue;
            };
            let kept = files.guest(&guest.name).map_err(crate::measure::record_failed)?;
            // A console is for a person who looks for a fault; a figure does not depend on it.
            if fs::rename(console, kept.join("console.log")).is_ok()
                && let Some(folder) = console.parent()
            {
                let _ = fs::remove_dir_all(folder);
            }
        }
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<(), Failure> {
        self.events.append(&event).map_err(crate::measure::record_failed)
    }

    fn note(&mut self, text: String) -> Result<(), Failure> {
        self.teller.note(text.clone());
        self.event(Event::Note { text })
    }

    /// What is to come is expected to take as much longer or shorter than planned as what is behind did.
    fn progress(&self, doing: String) {
        let seconds_done = self.began.elapsed().as_secs_f64();
        let planned = self.plan.expected.time.as_seconds();
        let left = (planned - self.expected_done).max(0.0);
        self.teller.progress(Progress {
            doing,
            seconds_done,
            seconds_expected: seconds_done + left * self.pace(),
        });
    }
}

/// What a pass saw besides loads and host.
struct Besides {
    began_unix_ms: u64,
    ready_s: f64,
    seconds_to_ready: Option<SecondsToReady>,
    memory: Option<MemoryFigures>,
    incidents: Vec<Incident>,
    kernel_errors: Vec<String>,
    levels: Levels,
}

/// Guests that were started; all of them end with it.
pub(crate) struct Started<'a> {
    backend: &'a dyn Backend,
    ids: Vec<GuestId>,
}

/// How the guests of a point come to be: the templates of those that are cloned.
pub(crate) struct Modes {
    templates: BTreeMap<String, TemplateId>,
    took: Duration,
}

impl Modes {
    /// How long the templates took; nothing without one.
    pub(crate) fn seconds(&self) -> Option<f64> {
        (!self.templates.is_empty()).then_some(self.took.as_secs_f64())
    }

    fn of(&self, point: &Point, guest: &GuestPlan) -> StartMode {
        let template = self.templates.get(&template_kind(point, guest));
        template.map_or(StartMode::Boot, |template| StartMode::Clone(*template))
    }
}

impl<'a> Started<'a> {
    pub(crate) fn new(backend: &'a dyn Backend) -> Self {
        Self { backend, ids: Vec::new() }
    }

    /// Makes the templates that a point's guests are cloned from, or finds them made.
    pub(crate) fn templates(&self, point: &Point) -> Result<Modes, Failure> {
        let began = Instant::now();
        let mut templates = BTreeMap::new();
        for guest in point.guests.iter().filter(|guest| wanted_origin(point, guest) == Origin::Cloned) {
            if let Entry::Vacant(place) = templates.entry(template_kind(point, guest)) {
                let service = services::service(point, guest);
                place.insert(self.backend.template(guest, &service).map_err(guest_failed)?);
            }
        }
        Ok(Modes { templates, took: began.elapsed() })
    }

    /// Starts all guests of a point and waits until they are ready. `hear` is told whenever one more is.
    pub(crate) fn start(
        &mut self,
        point: &Point,
        modes: &Modes,
        hear: &(dyn Fn() + Sync),
    ) -> Result<Vec<ReadyGuest>, Failure> {
        let services: Vec<_> = point.guests.iter().map(|guest| services::service(point, guest)).collect();
        let wanted: Vec<Wanted<'_>> = point
            .guests
            .iter()
            .zip(&services)
            .map(|(plan, service)| Wanted { plan, mode: modes.of(point, plan), service })
            .collect();
        let started = Mutex::new(&mut self.ids);
        let hear = |what| match what {
            StartEvent::Exists(id) => started.lock().unwrap_or_else(PoisonError::into_inner).push(id),
            StartEvent::Ready => hear(),
        };
        start_all_ready(self.backend, &wanted, services::ready_within(point), &hear).map_err(guest_failed)
    }

    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        self.stop_all()
    }

    fn stop_all(&mut self) -> Result<(), Failure> {
        let ids = std::mem::take(&mut self.ids);
        stop_all(self.backend, &ids).into_iter().collect::<Result<(), _>>().map_err(guest_failed)
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        // The failure that brought us here is the one to tell.
        let _ = self.stop_all();
    }
}

/// A database's memory belongs to its disks as they are: it is booted on disks that are cloned instead.
fn may_be_cloned(guest: &GuestPlan) -> bool {
    guest.role != Role::Database
}

/// How the plan wants a guest of a point to come to be.
fn wanted_origin(point: &Point, guest: &GuestPlan) -> Origin {
    match (point.backend, point.measure.start) {
        (plan::Backend::Native, _) => Origin::Namespaced,
        (_, Start::Clone) if may_be_cloned(guest) => Origin::Cloned,
        (_, Start::Clone | Start::Boot) => Origin::Booted,
    }
}

/// Guests of one kind share a template: the same service, with all that it holds, on the same disks.
fn template_kind(point: &Point, guest: &GuestPlan) -> String {
    format!("{:?} {:?}", services::service(point, guest), guest.disks)
}

pub(crate) fn memory_of<W: World>(
    world: &W,
    backend: &dyn Backend,
    guests: &[ReadyGuest],
) -> Option<MemoryFigures> {
    let ids: Vec<GuestId> = guests.iter().map(|guest| guest.id).collect();
    let read = |processes: &Vec<u32>| -> Option<Vec<Pss>> {
        let parts: Vec<Pss> = processes.iter().filter_map(|pid| world.pss(*pid)).collect();
        // A guest of which nothing could be read has an unknown size, and not none.
        (!parts.is_empty()).then_some(parts)
    };
    let sizes: Option<Vec<Vec<Pss>>> = backend.all_processes(&ids).iter().map(read).collect();
    memory::figures(&sizes?)
}

/// A guest that was to be cloned and was not, or that is gone now.
fn incidents(backend: &dyn Backend, guests: &[ReadyGuest], point: &Point) -> Vec<Incident> {
    let mut incidents = Vec::new();
    for (guest, plan) in guests.iter().zip(&point.guests) {
        let mut note = |kind, what: String| {
            incidents.push(Incident { kind, what, guest: Some(plan.name.clone()) });
        };
        let wanted = wanted_origin(point, plan);
        if let Some(origin) = backend.origin(guest.id).ok().filter(|origin| *origin != wanted) {
            note(
                IncidentKind::Unproven,
                format!("it was to be {} and was {}", origin_name(wanted), origin_name(origin)),
            );
        }
        if let Ok(tilemark_guests::GuestState::Ended(how)) = backend.state(guest.id) {
            note(IncidentKind::GuestEnded, format!("it ended during the measurement: {how}"));
        }
    }
    incidents
}

/// All guests of a point answer within this, or are not asked further: what they would say is known by their figures then.
const ASK_WITHIN: Duration = Duration::from_secs(10);
/// Each has at least this, however many there are.
const ASK_EACH_MIN: Duration = Duration::from_secs(1);

/// Guests that live and whose service has ended: asked to start it once more, an agent says so.
fn services_ended(point: &Point, guests: &mut [ReadyGuest], known: &[Incident]) -> Vec<Incident> {
    let (until, mut ended) = (Instant::now() + ASK_WITHIN, Vec::new());
    // One that says nothing does not use up the time of the others.
    let each = (ASK_WITHIN / u32::try_from(guests.len()).unwrap_or(u32::MAX).max(1)).max(ASK_EACH_MIN);
    for (guest, plan) in guests.iter_mut().zip(&point.guests) {
        let has_ended = |incident: &Incident| incident.guest.as_ref() == Some(&plan.name);
        let left = until.saturating_duration_since(Instant::now()).min(each);
        if left.is_zero() || known.iter().any(has_ended) {
            continue;
        }
        let request = Request::StartService(services::service(point, plan));
        if let Err(GuestError::Refused { message, .. }) = guest.session.ask(&request, left) {
            let what = format!("its service ended during the measurement: {message}");
            ended.push(Incident { kind: IncidentKind::GuestEnded, what, guest: Some(plan.name.clone()) });
        }
    }
    ended
}

/// How a guest came to be, in a word.
pub(crate) const fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Booted => "booted",
        Origin::Cloned => "cloned",
        Origin::Namespaced => "native",
    }
}

pub(crate) fn guest_failed(error: GuestError) -> Failure {
    let code = match &error {
        // No guest failed: the host lacks what guests need.
        GuestError::QemuMissing { .. } | GuestError::QemuTooOld { .. } | GuestError::Network(_) => {
            FailureCode::HostUnfit
        }
        _ => FailureCode::GuestFailed,
    };
    let remedy = error.remedy();
    Failure::new(code, &error, remedy)
}

pub(crate) fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

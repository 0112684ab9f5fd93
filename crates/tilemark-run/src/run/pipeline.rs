//! The pipeline: pass after pass over the plan's points, each with fresh guests, until the plan is done, a
//! search has its answer, something fails or the user wants it to end.
//!
//! ```text
//! for each pass:  enough memory and disk? -> one pass (`pass/one_pass.rs`) -> its summary is known to what decides the next
//! ```
//! It sees guests, loads and host only through [`World`], so that every step can be failed once in a test.
//! Whatever happens in a pass, its guests are gone when it ends.

use crate::{
    failure::Failure,
    job::messages::CommandLink,
    job::quiet,
    pass::host_settings,
    pass::one_pass::OnePass,
    pass::time::{RunTime, TimeLeft, unix_ms},
    pass::world::World,
    stop::StopSignal,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tilemark_plan::{
    expect,
    host_settings::HostSettings,
    plan::{Pass, Plan, Point},
    screening::Screened,
};
use tilemark_record::{Event, Events, RunDirectory, summary::RepeatSummary};
use tilemark_statistics::judge;
use tilemark_units::{Span, counted};

/// A pipeline over one plan.
pub(crate) struct Pipeline<'a, W> {
    /// The world.
    pub(super) world: &'a W,
    /// What shall happen; a search adds points.
    pub(super) plan: Plan,
    /// Where figures go.
    record: RunDirectory,
    /// What happened.
    events: Events,
    /// Who is shown how it goes.
    pub(super) link: &'a CommandLink,
    /// Whether it is to end.
    pub(super) stop: &'a StopSignal,
    /// Every repeat up to now.
    pub(super) repeats: Vec<RepeatSummary>,
    /// How many of them earlier sessions measured, where a closed record is continued.
    pub(super) continued_after: Option<usize>,
    /// Settings of the host that any point sets.
    settings: HostSettings,
    /// Those that another program has changed while they were held, in words: they were left alone.
    pub(crate) changed_by_others: Vec<String>,
    /// Kernels of guests that boot from a disk of their own, by the guest's name in the tile.
    pub(crate) kernels: BTreeMap<String, String>,
    /// The time of this session.
    pub(crate) time: RunTime,
    /// What to do on a host that others use too.
    pub(crate) busy_host: BusyHost,
    /// The last so many repeats were disturbed by others, one after the other.
    disturbed: u32,
}

/// By what points of one step are found: tiles, the group of a screening, what varies.
type StepKey<'p> = (u32, Option<u32>, Option<&'p BTreeMap<String, String>>);

/// What a run does on a host that others use too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BusyHost {
    /// It goes on however many repeats are disturbed: it was asked to run beside others.
    pub(crate) goes_on: bool,
    /// After a repeat that was disturbed it waits so long for a quiet host.
    pub(crate) wait: Option<Span>,
}

impl<'a, W: World> Pipeline<'a, W> {
    /// One that begins now. `before` are the repeats of earlier sessions, where a closed record is continued.
    ///
    /// # Errors
    /// When the record's events cannot be written.
    pub(crate) fn new(
        world: &'a W,
        plan: Plan,
        record: RunDirectory,
        link: &'a CommandLink,
        stop: &'a StopSignal,
        before: Option<Vec<RepeatSummary>>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            world,
            settings: host_settings::of_plan(&plan),
            changed_by_others: Vec::new(),
            kernels: BTreeMap::new(),
            plan,
            events: record.events()?,
            record,
            link,
            stop,
            continued_after: before.as_ref().map(Vec::len),
            repeats: before.unwrap_or_default(),
            time: RunTime::from_now(),
            busy_host: BusyHost::default(),
            disturbed: 0,
        })
    }

    /// Whether a repeat of this session is whole.
    pub(crate) fn has_measured(&self) -> bool {
        self.repeats.len() > self.continued_after.unwrap_or(0)
    }

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
        if self.planned_passes(&planned)? && self.plan.search.is_none() {
            self.retry_discarded(&planned)?;
            if self.plan.screening.is_some() {
                self.confirm()?;
            }
            self.confirm_pairs()?;
        }
        if self.stop.is_requested() {
            self.event(Event::Interrupted)?;
        }
        self.event(Event::Ended { unix_ms: unix_ms() })
    }

    /// The planned passes, in their order; says whether the time was enough for all of them.
    fn planned_passes(&mut self, planned: &[Pass]) -> Result<bool, Failure> {
        let searched = self.plan.search.map(|_| self.plan.points[0].backend);
        for block in planned.chunk_by(|one, next| one.block == next.block) {
            if searched.is_none() && !self.time_allows_block(block) {
                self.note(format!(
                    "stopped after {} whole repeats: too little time was left",
                    block[0].block - 1
                ))?;
                return Ok(false);
            }
            for (place, pass) in block.iter().enumerate() {
                // A search has measured its own backend already, and what is only shown is shown once.
                let was_shown =
                    searched.is_some() && self.repeats_before().any(|old| old.point == pass.point);
                let is_due = searched != Some(self.plan.points[pass.point].backend) && !was_shown;
                if is_due && !self.stop.is_requested() {
                    let after = planned.iter().filter(|later| later.block > pass.block);
                    let after: Vec<Pass> = block[place + 1..].iter().chain(after).copied().collect();
                    let after = self.time_of_passes(&after) + self.time_to_retry();
                    self.pass(*pass, after, None)?;
                }
            }
        }
        Ok(true)
    }

    /// Retries repeats that were discarded, each point at most as often again as was planned: a reason that lasts would
    /// discard them for ever. Each further block has the order of a planned one.
    fn retry_discarded(&mut self, planned: &[Pass]) -> Result<(), Failure> {
        let blocks: Vec<&[Pass]> = planned.chunk_by(|one, next| one.block == next.block).collect();
        for block in &blocks {
            let lacking = self.lacking();
            let number = blocks.len() as u32 + block[0].block;
            let again = block.iter().filter(|pass| lacking.contains(&pass.point));
            let again: Vec<Pass> =
                again.map(|pass| Pass { block: number, repeat: number, ..*pass }).collect();
            if again.is_empty() || self.stop.is_requested() {
                return Ok(());
            }
            if !self.time_allows_block(&again) {
                return self.note("discarded repeats are not retried: too little time was left".to_owned());
            }
            self.note("repeats that were discarded are retried".to_owned())?;
            for (place, pass) in again.iter().enumerate() {
                if !self.stop.is_requested() {
                    let after = self.time_of_passes(&again[place + 1..]);
                    self.pass(*pass, after, None)?;
                }
            }
        }
        Ok(())
    }

    /// Time of the repeats that were discarded up to now and will be retried.
    fn time_to_retry(&self) -> Duration {
        if self.plan.search.is_some() || self.plan.within.is_some() {
            return Duration::ZERO;
        }
        let of_step = |step: Vec<&Point>| {
            let done = step.iter().map(|point| self.repeats_of(point.index)).min().unwrap_or(0);
            let lacking = done.saturating_sub(judge::blocks_settled(&step, &self.repeats));
            step.iter().map(|point| expect::time_of(point)).sum::<Duration>() * lacking
        };
        self.steps().into_values().map(of_step).sum()
    }

    /// Points of which fewer repeats count than were planned. Those of one step are compared block by block, as two sides
    /// are or guests and their twin, and lack a repeat together. Figures of an emulator are no measure: they lack nothing.
    fn lacking(&self) -> BTreeSet<usize> {
        let lacks = |step: &&Vec<&Point>| {
            let wanted = step.iter().map(|point| point.measure.repeats).min().unwrap_or(0);
            judge::blocks_settled(step, &self.repeats) < wanted
        };
        self.steps().values().filter(lacks).flatten().map(|point| point.index).collect()
    }

    /// Points that are measured, those together that are compared block by block.
    fn steps(&self) -> BTreeMap<StepKey<'_>, Vec<&Point>> {
        let is_measured = |point: &&Point| !self.plan.host.emulates(point.backend);
        let mut steps: BTreeMap<_, Vec<&Point>> = BTreeMap::new();
        for point in self.plan.points.iter().filter(is_measured) {
            // Points of a screening are compared in groups, whatever is set in them.
            let group = point.screened.as_ref().map(Screened::group);
            let vary = if group.is_some() { None } else { Some(&point.vary) };
            steps.entry((point.tiles, group, vary)).or_default().push(point);
        }
        steps
    }

    /// How long passes take, as it is expected.
    pub(super) fn time_of_passes(&self, passes: &[Pass]) -> Duration {
        passes.iter().map(|pass| expect::time_of(&self.plan.points[pass.point])).sum()
    }

    pub(super) fn repeats_of(&self, point: usize) -> u32 {
        self.repeats.iter().filter(|repeat| repeat.point == point).count() as u32
    }

    /// A number that no repeat of this point has: those that were retried have the number of their block.
    pub(super) fn next_repeat(&self, point: usize) -> u32 {
        let own = self.repeats.iter().filter(|repeat| repeat.point == point);
        own.map(|repeat| repeat.repeat).max().unwrap_or(0) + 1
    }

    /// Repeats of earlier sessions.
    fn repeats_before(&self) -> impl Iterator<Item = &RepeatSummary> {
        self.repeats.iter().take(self.continued_after.unwrap_or(0))
    }

    /// The highest block of earlier sessions. Each block has schedules of its own: a further session repeats none.
    pub(super) fn blocks_before(&self) -> u32 {
        self.repeats_before().map(|repeat| repeat.block).max().unwrap_or(0)
    }

    /// A block that none of these points has had.
    pub(super) fn next_block(&self, points: &[usize]) -> u32 {
        let own = self.repeats.iter().filter(|repeat| points.contains(&repeat.point));
        own.map(|repeat| repeat.block).max().unwrap_or(0).max(self.blocks_before()) + 1
    }

    /// A block that no point has had.
    pub(super) fn new_block(&self) -> u32 {
        self.repeats.iter().map(|repeat| repeat.block).max().unwrap_or(0) + 1
    }

    /// One pass, where memory and disk are enough for it. `after` is how long what follows probably takes, and `at_most_after` at most.
    pub(super) fn pass(
        &mut self,
        pass: Pass,
        after: Duration,
        at_most_after: Option<Duration>,
    ) -> Result<(), Failure> {
        let point = self.plan.points[pass.point].clone();
        self.fits(&point)?;
        self.wait_until_quiet()?;
        if self.stop.is_requested() {
            return Ok(());
        }
        let is_first = !self.has_measured();
        let templates = if is_first { expect::time_of_templates(&self.plan.points) } else { Duration::ZERO };
        let before = expect::time_of_idle_power(&self.plan.host);
        self.time.begins(TimeLeft {
            pass: expect::time_of(&point) + templates,
            after,
            at_most_after,
            end: self.plan.within.map(|within| within.get().saturating_sub(before)),
        });
        self.event(Event::PassBegan { unix_ms: unix_ms(), pass })?;
        let session = self.session();
        let one_pass = OnePass {
            world: self.world,
            plan: &self.plan,
            point: &point,
            pass,
            session,
            record: &self.record,
            events: &mut self.events,
            link: self.link,
            stop: self.stop,
            time: &mut self.time,
            settings: &self.settings,
            changed_by_others: &mut self.changed_by_others,
            kernels: &mut self.kernels,
            repeats: &mut self.repeats,
        };
        match one_pass.run() {
            Ok(true) => self.event(Event::PassEnded { pass })?,
            // Interrupted: a pass that is not whole does not count.
            Ok(false) => {}
            Err(failure) => {
                self.event(Event::PassFailed { pass, message: failure.message.clone() })?;
                return Err(failure);
            }
        }
        self.time.passed(expect::time_of(&point));
        self.look_for_others(&point, pass)
    }

    /// Says at once that others disturbed the repeat that was measured last, and who. Ends the run where that happens again and
    /// again. Which repeats are discarded is not decided here, but when all are judged (`validity::soundness`).
    fn look_for_others(&mut self, point: &Point, pass: Pass) -> Result<(), Failure> {
        let last = self.repeats.last().filter(|last| (last.point, last.repeat) == (pass.point, pass.repeat));
        let Some(host) = last.map(|last| &last.host) else { return Ok(()) };
        if host.seconds == 0 || self.plan.host.emulates(point.backend) {
            return Ok(());
        }
        let reasons: Vec<String> = judge::busy_host(host.processor.steal, host.processor.other).collect();
        if reasons.is_empty() {
            self.disturbed = 0;
            return Ok(());
        }
        let loud = quiet::with_programs(&reasons.join("; "), &host.others);
        self.disturbed += 1;
        let side = point.side.map(|side| format!(", side {}", side.name())).unwrap_or_default();
        let tiles = counted(point.tiles, "tile");
        self.note(format!("repeat {} at {tiles}{side} is discarded: {loud}", pass.repeat))?;
        if self.disturbed >= quiet::DISTURBED_IN_A_ROW_MAX && !self.busy_host.goes_on {
            return Err(quiet::too_loud(self.disturbed, &loud));
        }
        Ok(())
    }

    /// Waits for a quiet host where the last repeat was disturbed and that was asked for.
    fn wait_until_quiet(&mut self) -> Result<(), Failure> {
        let Some(within) = self.busy_host.wait.filter(|_| self.disturbed > 0) else { return Ok(()) };
        let (world, stop) = (self.world, self.stop);
        let began = self.time.elapsed();
        let mut said = Vec::new();
        let waited = quiet::wait(within, || world.others(&|| stop.is_requested()), &mut |text| {
            self.link.note(text.clone());
            said.push(text);
        });
        for text in said {
            self.event(Event::Note { text })?;
        }
        self.time.on_templates += self.time.elapsed().saturating_sub(began);
        waited.map(drop)
    }

    /// Which session of the record this is, from 1.
    fn session(&self) -> u32 {
        let of_before = |repeat: &RepeatSummary| repeat.levels.as_ref().map_or(1, |levels| levels.session);
        self.repeats_before().map(of_before).max().unwrap_or(0) + 1
    }

    pub(super) fn event(&mut self, event: Event) -> Result<(), Failure> {
        Ok(self.events.append(&event)?)
    }

    pub(super) fn note(&mut self, text: String) -> Result<(), Failure> {
        self.link.note(text.clone());
        self.event(Event::Note { text })
    }
}

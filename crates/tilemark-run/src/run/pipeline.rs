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
    pass::host_settings,
    pass::one_pass::OnePass,
    pass::time::{RunTime, unix_ms},
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
use tilemark_units::Span;

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
            for pass in block {
                // A search has measured its own backend already, and what is only shown is shown once.
                let was_shown =
                    searched.is_some() && self.repeats_before().any(|old| old.point == pass.point);
                let is_due = searched != Some(self.plan.points[pass.point].backend) && !was_shown;
                if is_due && !self.stop.is_requested() {
                    self.pass(*pass)?;
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
            self.expect_more(&again);
            for pass in again {
                if !self.stop.is_requested() {
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
            // Points of a screening are compared in groups, whatever is set in them.
            let group = point.screened.as_ref().map(Screened::group);
            let vary = if group.is_some() { None } else { Some(&point.vary) };
            steps.entry((point.tiles, group, vary)).or_default().push(point);
        }
        let lacks = |step: &&Vec<&Point>| {
            let wanted = step.iter().map(|point| point.measure.repeats).min().unwrap_or(0);
            judge::blocks_settled(step, &self.repeats) < wanted
        };
        steps.values().filter(lacks).flatten().map(|point| point.index).collect()
    }

    /// Takes passes that were not planned into the time that all of it is expected to take.
    pub(super) fn expect_more(&mut self, passes: &[Pass]) {
        let time: Duration = passes.iter().map(|pass| expect::time_of(&self.plan.points[pass.point])).sum();
        let expected = &mut self.plan.expected.time;
        *expected = Span::new(expected.get() + time);
    }

    pub(super) fn repeats_of(&self, point: usize) -> u32 {
        self.repeats.iter().filter(|repeat| repeat.point == point).count() as u32
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

    /// One pass, where memory and disk are enough for it.
    pub(super) fn pass(&mut self, pass: Pass) -> Result<(), Failure> {
        let point = self.plan.points[pass.point].clone();
        self.fits(&point)?;
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
        Ok(())
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

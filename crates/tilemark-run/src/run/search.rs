//! The search for the largest count that holds, and each answer beside its native twin.

use crate::{failure::Failure, pass::world::World, run::pipeline::Pipeline};
use std::{collections::BTreeSet, time::Duration};
use tilemark_plan::{
    expect,
    plan::{self, MemoryEnd, Pass, Point},
    resolve::passes,
};
use tilemark_record::Event;
use tilemark_statistics::judge::{self, CapacitySearch, Ended, Known, Next};
use tilemark_units::{Span, counted};

/// After so many repeats of a count that were all discarded a search goes on below it. With nothing that holds there is no
/// other way to an answer, and it is measured once more than for its figure.
fn discarded_max(known: &Known, repeats: u32) -> u32 {
    if known.held().is_some() { 2 } else { repeats + 1 }
}

impl<W: World> Pipeline<'_, W> {
    /// Searches for the largest count that holds, and measures it beside its twin where that is asked. Its further repeats
    /// may turn the boundary: then the search goes on, and its next answer has a twin of its own.
    pub(super) fn search(&mut self) -> Result<(), Failure> {
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

    /// What all repeats up to now say about the counts of a search.
    fn known(&self, like: &Point) -> Known {
        let points: Vec<&Point> =
            self.plan.points.iter().filter(|point| point.backend == like.backend).collect();
        Known::of(&points, &self.repeats)
    }

    /// Repeats of a count, each in a block with one of its native twin, until as many blocks count as repeats were wanted; at
    /// most as many again, since a reason that lasts would discard them for ever. Says no where nothing was measured.
    fn beside_twin(&mut self, guests: &Point) -> Result<bool, Failure> {
        let like = Point { backend: plan::Backend::Native, ..guests.clone() };
        let twin = self.point_with(&like, guests.tiles);
        let wanted = guests.measure.repeats;
        let seed = self.plan.seed.wrapping_add(self.blocks_before().into());
        let order = passes(&[guests.clone(), twin.clone()], seed);
        let pairs: Vec<&[Pass]> = order.chunk_by(|one, next| one.block == next.block).collect();
        for done in 0..2 * wanted {
            let is_settled = judge::blocks_settled(&[guests, &twin], &self.repeats) >= wanted;
            if is_settled || self.stop.is_requested() {
                break;
            }
            if let Some(why) = self.why_no_pair(guests, &twin) {
                self.note(why)?;
                break;
            }
            self.add(&twin)?;
            let pair = pairs[(done % wanted) as usize];
            let lacking = wanted.saturating_sub(judge::blocks_settled(&[guests, &twin], &self.repeats));
            let pair_time = expect::time_of(guests) + expect::time_of(&twin);
            let after = self.time_of_other_backends(guests) + pair_time * lacking.saturating_sub(1);
            let at_most = self.time_of_other_backends(guests) + pair_time * (2 * wanted - done - 1);
            let block = self.next_block(&[guests.index, twin.index]);
            for (place, pass) in pair.iter().enumerate() {
                if !self.stop.is_requested() {
                    let repeat = self.repeats_of(pass.point) + 1;
                    let rest = self.time_of_passes(&pair[place + 1..]);
                    self.pass(Pass { block, point: pass.point, repeat }, rest + after, Some(rest + at_most))?;
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
            .then(|| "no further repeat beside the native twin: too little time was left".to_owned())
    }

    /// Goes on with a search until its answer is certain or its time is over; says which.
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
            if self.stop.is_requested() {
                return Ok(());
            }
            let point = self.point_with(like, tiles);
            if !self.time_allows(like, search, &known, tiles, within) {
                if search.settle() {
                    if known.repeats(tiles) == 0 {
                        self.note(format!("{} not tried: too little time was left", counted(tiles, "tile")))?;
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
            let (after, at_most) = self.time_after_probe(search, &known, &point);
            self.pass(Pass { block, point: point.index, repeat }, after, at_most)?;
            self.report_probe(search, like, &point)?;
        }
    }

    /// How long a search probably takes after its next repeat, and how long at most where that is known.
    fn time_after_probe(
        &self,
        search: &CapacitySearch,
        known: &Known,
        next: &Point,
    ) -> (Duration, Option<Duration>) {
        let wanted = self.plan.search.expect("only a search has probes");
        let left = search.left(known, wanted.guess);
        let time = |(tiles, repeats): (u32, u32)| expect::time_with_tiles(next, tiles) * repeats;
        let pass = expect::time_of(next);
        let twin = if wanted.twin { pass * (2 * next.measure.repeats) } else { Duration::ZERO };
        let after = self.time_of_other_backends(next) + twin;
        let likely = left.likely.into_iter().map(time).sum::<Duration>().saturating_sub(pass);
        let at_most = left.at_most.map(time).map(|time| time.saturating_sub(pass));
        // A twin has at most twice as many pairs.
        (likely + after, at_most.map(|time| time + after + twin))
    }

    /// How long the points on other backends take that are shown after a search.
    fn time_of_other_backends(&self, measured: &Point) -> Duration {
        if self.continued_after.is_some() {
            return Duration::ZERO;
        }
        let others = self.plan.passes.iter().map(|pass| &self.plan.points[pass.point]);
        let others = others.filter(|point| point.backend != measured.backend);
        others.map(expect::time_of).sum()
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
            self.link.note(format!("{tiles}: {word}"));
        } else if self.repeats_of(point.index) >= discarded_max(&known, like.measure.repeats) {
            self.note(format!("{tiles}: cannot tell"))?;
            search.cannot_tell(point.tiles);
        }
        Ok(())
    }

    fn note_end(&mut self, why: Ended) -> Result<(), Failure> {
        match why {
            Ended::Sure => self.note("the search found a certain answer".to_owned()),
            Ended::NotSure => self.note(
                "the search used all repeats that it is allowed, and its answer is not certain".to_owned(),
            ),
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
    pub(super) fn point_with(&self, like: &Point, tiles: u32) -> Point {
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
}

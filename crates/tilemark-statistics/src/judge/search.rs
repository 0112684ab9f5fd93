//! The search for the largest tile count that holds. It doubles until a count breaks and bisects until few counts are left, one repeat
//! each; then it measures where a repeat decides most, until the range of the answer is probable enough and narrow enough.
//!
//! ```text
//! doubling --breaks--> bisecting --narrow--> sharpening --sure, or enough repeats--> ended
//!     |                    ^                      |
//!     +--limit holds-------+-------side turns-----+
//! ```
//! When its time gets short it settles: no new count is tried, and those that are known are measured again. A count of which nothing
//! is known (all its repeats were discarded) ends what is tried, as one that broke does, and is no side of the boundary.

use std::collections::BTreeSet;

use tilemark_plan::plan::Point;
use tilemark_plan::search::{FURTHER_MAX, Sides as PlannedSides, expected_tries, width_allowed};
use tilemark_record::summary::RepeatSummary;

use super::measured::MeasuredPoint;
use super::survey::{CONFIDENCE_MIN, Standing, Step, Survey};
use crate::figure::INTERVAL_REPEATS_MIN;

/// What is known of the counts that a search measured.
pub struct Known(Survey);

impl Known {
    /// From all repeats of these points, which are one ladder.
    ///
    /// # Panics
    /// Of no points.
    pub fn of(points: &[&Point], repeats: &[RepeatSummary]) -> Self {
        let measured: Vec<MeasuredPoint> =
            points.iter().map(|point| MeasuredPoint::of(point, repeats)).collect();
        Self(Survey::of(&measured.iter().collect::<Vec<_>>()))
    }

    /// The largest count that holds by all that is known, with all below it.
    pub fn held(&self) -> Option<u32> {
        self.sides().held
    }

    /// What is said about a count, in a word; nothing where nothing is known of it.
    pub fn word(&self, tiles: u32) -> Option<&'static str> {
        match self.0.steps.get(&tiles)?.standing {
            Standing::Holds => Some("holds"),
            Standing::Breaks => Some("breaks"),
            Standing::Undecided => Some("undecided"),
            Standing::Unknown => None,
        }
    }

    /// Repeats of a count that have a result.
    pub fn repeats(&self, tiles: u32) -> u32 {
        self.0.steps.get(&tiles).map_or(0, |step| step.repeats)
    }

    fn measured(&self) -> impl Iterator<Item = (u32, &Step)> {
        self.0.steps.iter().filter(|(_, step)| step.repeats > 0).map(|(tiles, step)| (*tiles, step))
    }

    /// Repeats beyond the first of each count. Discarded ones count too: what discards every repeat would be measured for ever.
    fn further(&self) -> u32 {
        self.0.steps.values().map(|step| step.tries.saturating_sub(1)).sum()
    }

    /// On which side of the gate each count probably lies: the smallest that breaks, and the largest below it that holds.
    fn sides(&self) -> Sides {
        let is_over = |step: &Step| match step.standing {
            Standing::Holds => false,
            Standing::Breaks => true,
            Standing::Undecided | Standing::Unknown => step.side > 0.0,
        };
        let broke = self.measured().find(|(_, step)| is_over(step)).map(|(tiles, _)| tiles);
        let below = self.measured().take_while(|(tiles, _)| broke.is_none_or(|broke| *tiles < broke));
        Sides { held: below.map(|(tiles, _)| tiles).last(), broke }
    }

    fn is_failure(&self, tiles: u32) -> bool {
        self.0.is_failure(tiles)
    }

    fn confidence(&self, pair: Pair) -> f64 {
        let by_failure = pair.broke.is_some_and(|broke| self.is_failure(broke));
        self.0.confidence(pair.held, pair.broke, by_failure).unwrap_or(0.0)
    }

    fn is_decided(&self, tiles: u32, standing: Standing) -> bool {
        self.0.steps.get(&tiles).is_some_and(|step| step.standing == standing && step.is_measured)
    }

    /// What is expected of a count as an end of the answer.
    fn outlook(&self, tiles: u32) -> Outlook {
        let lacking = self.0.repeats_lacking(tiles);
        let holds = self.0.law.as_ref().map_or(0.5, |law| law.holds(f64::from(tiles)));
        Outlook { tiles, holds, breaks: if self.is_failure(tiles) { 1.0 } else { 1.0 - holds }, lacking }
    }
}

/// What is expected of a count as an end of the answer.
#[derive(Clone, Copy)]
struct Outlook {
    tiles: u32,
    /// Probability that it holds.
    holds: f64,
    /// Probability that it breaks.
    breaks: f64,
    /// Repeats that it lacks until its own interval is likely to decide.
    lacking: u32,
}

#[derive(Clone, Copy)]
struct Sides {
    held: Option<u32>,
    broke: Option<u32>,
}

/// The ends of an answer.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Pair {
    held: Option<u32>,
    broke: Option<u32>,
}

/// An answer that a search could work for.
struct Best {
    pair: Pair,
    confidence: f64,
    /// Repeats that its ends lack.
    lacking: u32,
    /// Counts from the first end to the last.
    counts: u32,
}

impl Best {
    /// The cheapest of the sure answers; the most probable where none is sure.
    fn is_better_than(&self, other: &Self) -> bool {
        match (self.confidence >= CONFIDENCE_MIN, other.confidence >= CONFIDENCE_MIN) {
            (true, true) => (self.lacking, -self.confidence) < (other.lacking, -other.confidence),
            (false, false) => self.confidence > other.confidence,
            (is_sure, _) => is_sure,
        }
    }

    /// The narrowest of the sure answers that little time is enough for. Ends far apart are cheap and say nothing.
    fn is_better_in_little_time_than(&self, other: &Self) -> bool {
        let is_possible =
            |best: &Self| best.confidence >= CONFIDENCE_MIN && best.lacking <= REPEATS_OF_SETTLED_MAX;
        if is_possible(self) && is_possible(other) {
            (self.counts, self.lacking) < (other.counts, other.lacking)
        } else {
            is_possible(self) || !is_possible(other) && self.is_better_than(other)
        }
    }
}

/// A search that tries no further count kept time for so many repeats: each end until it has an interval.
const REPEATS_OF_SETTLED_MAX: u32 = 2 * INTERVAL_REPEATS_MIN as u32;

/// In so many steps a search goes from one count exactly to the widest range that is allowed.
const PARTS_OF_WIDTH: u32 = 4;

/// A part of the width that is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Width {
    parts: u32,
}

impl Width {
    fn allows(self, held: u32, broke: u32) -> bool {
        broke - held - 1 <= width_allowed(held, broke) * self.parts / PARTS_OF_WIDTH
    }
}

/// The answer that a search works for.
struct Aim {
    pair: Pair,
    width: Width,
}

/// What a search wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// One further repeat of a count.
    Probe(u32),
    /// Nothing.
    Ended(Ended),
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The range of its answer is narrow enough and probable enough.
    Sure,
    /// It took as many repeats as it may, and is not sure.
    NotSure,
    /// Nothing is known of any count.
    NothingKnown,
}

/// What a search still measures: counts, each with its number of repeats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchLeft {
    /// If the rest of it goes as is likely.
    pub likely: Vec<(u32, u32)>,
    /// At most, where that can be known: not before a count broke or the limit held.
    pub at_most: Option<(u32, u32)>,
}

/// A search: its limits and what it gave up. What it found is in the repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacitySearch {
    from: u32,
    limit: u32,
    repeats: u32,
    unknown: BTreeSet<u32>,
    is_settled: bool,
    /// Repeats beyond the first of each count that earlier sessions took. They do not count against those that it may take.
    further_before: u32,
}

impl CapacitySearch {
    /// A search that begins with `from`, never passes `limit`, and measures a count about `repeats` times where it decides.
    pub fn new(from: u32, limit: u32, repeats: u32) -> Self {
        Self {
            from: from.max(1),
            limit: limit.max(1),
            repeats: repeats.max(1),
            unknown: BTreeSet::new(),
            is_settled: false,
            further_before: 0,
        }
    }

    /// The same search in a further session, after what is known: it may take as many repeats again.
    #[must_use]
    pub fn continued(self, known: &Known) -> Self {
        Self { further_before: known.further(), ..self }
    }

    /// Nothing can be known of a count: what lies below it is tried instead.
    pub fn cannot_tell(&mut self, tiles: u32) {
        self.unknown.insert(tiles);
    }

    /// Lowers the limit, since more does not fit. Says no where more was measured already: then the host gives less than it gave, and
    /// a search has nothing left to go by.
    pub fn never_pass(&mut self, limit: u32, known: &Known) -> bool {
        let most = known.measured().map(|(tiles, _)| tiles).last();
        self.limit = self.limit.min(limit.max(1));
        most.is_none_or(|most| most <= limit) && limit > 0
    }

    /// Tries no further count from now on. Says no where that was so already.
    pub fn settle(&mut self) -> bool {
        !std::mem::replace(&mut self.is_settled, true)
    }

    /// Whether nothing further is tried.
    pub const fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// What to measure next.
    pub fn next(&self, known: &Known) -> Next {
        let sides = known.sides();
        if let Some(tiles) = self.untried(&sides).filter(|_| !self.is_settled) {
            return Next::Probe(tiles);
        }
        if sides.held.is_none() && sides.broke.is_none() {
            return Next::Ended(Ended::NothingKnown);
        }
        let further = known.further().saturating_sub(self.further_before);
        let aim = self.aim(known, &sides, (2 * self.repeats).saturating_sub(further));
        if self.is_sure(known, &sides, aim.width) {
            return Next::Ended(Ended::Sure);
        }
        if further >= FURTHER_MAX * self.repeats {
            return Next::Ended(Ended::NotSure);
        }
        Self::lacking_most(known, aim.pair).map_or(Next::Ended(Ended::NotSure), Next::Probe)
    }

    /// What it still measures, where about `guess` tiles hold unless more is known.
    pub fn left(&self, known: &Known, guess: u32) -> SearchLeft {
        let sides = known.sides();
        let further = known.further().saturating_sub(self.further_before);
        let budget = (FURTHER_MAX * self.repeats).saturating_sub(further);
        let (tries, ends) = self.tries_left(&sides, guess);
        let lacking = |tiles: u32| match (tries.is_empty(), tries.contains(&tiles)) {
            (true, _) => known.0.repeats_lacking(tiles).max(1),
            (false, is_tried) => self.repeats.saturating_sub(known.repeats(tiles) + u32::from(is_tried)),
        };
        let ends = match tries.is_empty() {
            true => self.aim(known, &sides, (2 * self.repeats).saturating_sub(further)).pair,
            false => ends,
        };
        let mut left = budget;
        let confirming = [ends.held, ends.broke].into_iter().flatten().map(|tiles| {
            let repeats = lacking(tiles).min(left);
            left -= repeats;
            (tiles, repeats)
        });
        let likely = tries.iter().map(|tiles| (*tiles, 1)).chain(confirming).collect();
        // From one bisection to the next the range is halved.
        let most = sides.broke.map(|broke| (broke, (broke - sides.held.unwrap_or(0)).ilog2() + 1));
        let most = match (most, sides.held) {
            (None, Some(held)) if held >= self.limit => Some((held, 0)),
            (most, _) => most,
        };
        let at_most =
            most.map(|(tiles, untried)| (tiles, budget + if tries.is_empty() { 0 } else { untried }));
        SearchLeft { likely, at_most }
    }

    /// Counts that are probably still tried, and the ends of the answer then.
    fn tries_left(&self, sides: &Sides, guess: u32) -> (Vec<u32>, Pair) {
        let known = Pair { held: sides.held, broke: sides.broke };
        let Some(next) = self.untried(sides).filter(|_| !self.is_settled) else { return (Vec::new(), known) };
        let held = sides.held.unwrap_or(0);
        let guess = match sides.broke {
            Some(broke) => guess.clamp(held, broke.saturating_sub(1).max(held)),
            // More holds than was guessed: the next count may be the one that breaks.
            None => guess.max(held),
        };
        let from = PlannedSides { held, broke: sides.broke };
        let (tries, ends) = expected_tries(from, next, self.limit, guess);
        (tries, Pair { held: Some(ends.held).filter(|held| *held > 0), broke: ends.broke })
    }

    /// Counts whose further repeats are kept time for while a new count is tried: itself and the other end of the answer, each until
    /// it has an interval. Nothing before the first probe, which is worth its time whatever comes of it.
    pub fn to_confirm(&self, known: &Known, tiles: u32) -> Vec<u32> {
        let Sides { held, broke } = known.sides();
        let Some(other) = broke.or(held) else { return Vec::new() };
        let lacks = |tiles: u32, had: u32| {
            std::iter::repeat_n(tiles, (INTERVAL_REPEATS_MIN as u32).saturating_sub(had) as usize)
        };
        lacks(tiles, known.repeats(tiles) + 1).chain(lacks(other, known.repeats(other))).collect()
    }

    /// A count between what held and what broke, or beyond what was tried; nothing where few enough are left.
    fn untried(&self, sides: &Sides) -> Option<u32> {
        let Sides { held, broke } = *sides;
        let unknown = self.unknown.iter().copied().find(|unknown| held.is_none_or(|held| *unknown > held));
        let ceiling = broke.into_iter().chain(unknown).min();
        match (held, ceiling) {
            (None, None) => Some(self.from.min(self.limit)),
            (Some(held), None) if held < self.limit => Some(held.saturating_mul(2).min(self.limit)),
            (Some(held), Some(ceiling)) if ceiling - held > 1 + self.width(held, broke, ceiling) => {
                Some(held + (ceiling - held) / 2)
            }
            (None, Some(ceiling)) if ceiling > 1 => Some(ceiling / 2),
            _ => None,
        }
    }

    /// So many counts may stay untried between. Below a count that is only unknown every count is tried: nothing but a neighbour can be
    /// said about it.
    fn width(&self, held: u32, broke: Option<u32>, ceiling: u32) -> u32 {
        if broke == Some(ceiling) { width_allowed(held, ceiling) / PARTS_OF_WIDTH } else { 0 }
    }

    /// Whether ends that were measured make an answer that is this narrow, and probable.
    fn is_sure(&self, known: &Known, sides: &Sides, width: Width) -> bool {
        let held = known.measured().filter(|(tiles, _)| known.is_decided(*tiles, Standing::Holds)).last();
        let broke = known.measured().find(|(tiles, _)| known.is_decided(*tiles, Standing::Breaks));
        let pair = Pair { held: held.map(|(tiles, _)| tiles), broke: broke.map(|(tiles, _)| tiles) };
        let is_complete = match pair {
            Pair { held: Some(held), broke: Some(broke) } => held < broke && width.allows(held, broke),
            Pair { held, broke: None } if held.is_some() => sides.broke.is_none() && sides.held == held,
            Pair { held: None, broke: Some(broke) } => sides.held.is_none() && broke == 1,
            Pair { broke: None, .. } => false,
        };
        is_complete && known.confidence(pair) >= CONFIDENCE_MIN
    }

    /// The answer to work for: one count exactly, or as few as are probable enough within the repeats that are left; at last as many as
    /// are allowed, whatever they cost.
    fn aim(&self, known: &Known, sides: &Sides, repeats_left: u32) -> Aim {
        let widest = Width { parts: PARTS_OF_WIDTH };
        if sides.held.is_none() || sides.broke.is_none() {
            return Aim { pair: Pair { held: sides.held, broke: sides.broke }, width: widest };
        }
        let ends: Vec<Outlook> =
            self.ends(known, sides).into_iter().map(|tiles| known.outlook(tiles)).collect();
        for parts in 0..PARTS_OF_WIDTH {
            let width = Width { parts };
            if let Some(best) = self.best_pair(&ends, width)
                && best.confidence >= CONFIDENCE_MIN
                && best.lacking <= repeats_left
            {
                return Aim { pair: best.pair, width };
            }
        }
        let pair = self.best_pair(&ends, widest).map(|best| best.pair);
        Aim { pair: pair.unwrap_or(Pair { held: sides.held, broke: sides.broke }), width: widest }
    }

    /// Of both ends the count that lacks most repeats.
    fn lacking_most(known: &Known, pair: Pair) -> Option<u32> {
        let ends = [(pair.held, Standing::Holds), (pair.broke, Standing::Breaks)];
        let ends = ends.into_iter().filter_map(|(tiles, standing)| Some((tiles?, standing)));
        let lacking = |(tiles, standing): &(u32, Standing)| {
            let had = known.repeats(*tiles);
            let is_open = !known.is_decided(*tiles, *standing);
            let lacks = known.0.repeats_lacking(*tiles).max(u32::from(is_open));
            // Among ends that lack nothing more, the one with fewer repeats.
            (lacks, std::cmp::Reverse(had))
        };
        ends.max_by_key(lacking).map(|(tiles, _)| tiles)
    }

    /// Of the answers that are probable enough, the one that lacks the fewest repeats, or where the search is settled the narrowest;
    /// where none is, the most probable.
    fn best_pair(&self, ends: &[Outlook], width: Width) -> Option<Best> {
        let mut best: Option<Best> = None;
        for held in ends {
            let is_allowed = |broke: &&Outlook| {
                held.tiles < broke.tiles && (self.is_settled || width.allows(held.tiles, broke.tiles))
            };
            for broke in ends.iter().filter(is_allowed) {
                let next = Best {
                    pair: Pair { held: Some(held.tiles), broke: Some(broke.tiles) },
                    confidence: held.holds + broke.breaks - 1.0,
                    lacking: held.lacking + broke.lacking,
                    counts: broke.tiles - held.tiles,
                };
                let is_better = |best: &Best| match self.is_settled {
                    true => next.is_better_in_little_time_than(best),
                    false => next.is_better_than(best),
                };
                if best.as_ref().is_none_or(is_better) {
                    best = Some(next);
                }
            }
        }
        best
    }

    /// Counts that may become an end of the answer: those that were measured, and unless the search is settled every count near the
    /// gate.
    fn ends(&self, known: &Known, sides: &Sides) -> BTreeSet<u32> {
        let mut ends: BTreeSet<u32> = known.measured().map(|(tiles, _)| tiles).collect();
        if let (Some(law), false) = (&known.0.law, self.is_settled) {
            let lowest = (law.quantile(0.999).floor() as u32).min(sides.held.unwrap_or(1)).max(1);
            let highest = (law.quantile(0.001).ceil() as u32).max(sides.broke.unwrap_or(1)).min(self.limit);
            // A wide range of large counts need not be looked at tile by tile.
            let stride = (highest.saturating_sub(lowest) / 48).max(1);
            ends.extend((lowest..=highest).step_by(stride as usize));
        }
        // A count of which nothing is known is no end.
        ends.retain(|tiles| !self.unknown.contains(tiles) || known.repeats(*tiles) > 0);
        ends
    }
}

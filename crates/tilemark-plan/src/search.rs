//! The search for the largest tile count that holds: doubles until the gate breaks, bisects between the
//! last that held and the first that broke, then measures that boundary on both sides with all repeats.
//!
//! ```text
//! doubling --breaks--> bisecting --neighbours--> boundary --both confirmed--> ended
//!     |                    ^                        |
//!     +--limit held--------+--------reversed--------+
//! ```
//! When its time gets short it settles: nothing new is tried, and the boundary as it is known, with what lies
//! untried between, is measured again on both sides. A count of which nothing could be told (its repeats were voided) is an end
//! of what is tried, as one that broke is, and no side of the boundary.

use std::collections::{BTreeMap, BTreeSet};

/// What to measure next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// How many tiles.
    pub tiles: u32,
    /// How many further repeats.
    pub repeats: u32,
}

/// What a count was found to do, up to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// Whether it holds by all of its repeats.
    pub holds: bool,
    /// Repeats behind that.
    pub repeats: u32,
}

/// The state of a search: everything that was found. The next step follows from it alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacitySearch {
    from: u32,
    limit: u32,
    repeats: u32,
    found: BTreeMap<u32, Finding>,
    untold: BTreeSet<u32>,
    is_settled: bool,
}

/// The largest count that held with all below it, and the smallest that broke.
struct Boundary {
    held: Option<u32>,
    broke: Option<u32>,
}

impl CapacitySearch {
    /// A search that begins with `from`, never passes `limit` and confirms with so many repeats.
    pub fn new(from: u32, limit: u32, repeats: u32) -> Self {
        Self {
            from: from.max(1),
            limit: limit.max(1),
            repeats: repeats.max(1),
            found: BTreeMap::new(),
            untold: BTreeSet::new(),
            is_settled: false,
        }
    }

    /// Takes what a count was found to do, over all repeats that it had.
    pub fn record(&mut self, tiles: u32, finding: Finding) {
        self.untold.remove(&tiles);
        self.found.insert(tiles, finding);
    }

    /// The largest count that holds by all that is known, with all below it.
    pub fn held(&self) -> Option<u32> {
        self.boundary().held
    }

    /// Nothing can be told of a count, whatever it was found to do before: what lies below it is tried instead.
    pub fn cannot_tell(&mut self, tiles: u32) {
        self.found.remove(&tiles);
        self.untold.insert(tiles);
    }

    /// Lowers the limit, since more does not fit. Says no where so much was found already: then the host gives
    /// less than it gave, and a search has nothing left to go by.
    pub fn never_pass(&mut self, limit: u32) -> bool {
        let found = self.found.keys().next_back().is_some_and(|most| *most > limit);
        self.limit = self.limit.min(limit.max(1));
        !found && limit > 0
    }

    /// Tries no further count from now on. Says no where that was so already.
    pub fn settle(&mut self) -> bool {
        !std::mem::replace(&mut self.is_settled, true)
    }

    /// Whether nothing further is tried.
    pub const fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// What to measure next; `None` when the boundary is known and confirmed, or nothing broke.
    pub fn next(&self) -> Option<Probe> {
        self.untried().filter(|_| !self.is_settled).or_else(|| self.to_confirm())
    }

    /// What would still have to be measured to confirm the boundary if a probe went either way: repeats of the
    /// probe's own count and of the count on its other side. Nothing before the first probe, which is worth
    /// its time whatever comes of it.
    pub fn confirmation_after(&self, probe: Probe) -> Vec<Probe> {
        let boundary = self.boundary();
        let Some(other) = boundary.broke.or(boundary.held) else { return Vec::new() };
        let had = |tiles| self.found.get(&tiles).map_or(0, |finding| finding.repeats);
        let left = |tiles, had: u32| Probe { tiles, repeats: self.repeats.saturating_sub(had) };
        vec![left(probe.tiles, had(probe.tiles) + probe.repeats), left(other, had(other))]
    }

    /// A count between what held and what broke, or beyond what was tried.
    fn untried(&self) -> Option<Probe> {
        let Boundary { held, broke } = self.boundary();
        let untold = self.untold.iter().copied().find(|untold| held.is_none_or(|held| *untold > held));
        let ceiling = broke.into_iter().chain(untold).min();
        let tiles = match (held, ceiling) {
            (None, None) => self.from.min(self.limit),
            (Some(held), None) if held < self.limit => held.saturating_mul(2).min(self.limit),
            (Some(held), Some(ceiling)) if ceiling - held > 1 => held + (ceiling - held) / 2,
            (None, Some(ceiling)) if ceiling > 1 => ceiling / 2,
            _ => return None,
        };
        Some(Probe { tiles, repeats: 1 })
    }

    /// The side of the boundary that lacks repeats: the broken one first, since it is likelier to turn. One
    /// repeat after the other where time is short, so that both sides get theirs.
    fn to_confirm(&self) -> Option<Probe> {
        let Boundary { held, broke } = self.boundary();
        let lacking = [broke, held].into_iter().flatten().filter_map(|tiles| self.unconfirmed(tiles));
        if self.is_settled {
            let one = |probe: Probe| Probe { repeats: 1, ..probe };
            return lacking.max_by_key(|probe| (probe.repeats, probe.tiles)).map(one);
        }
        lacking.into_iter().next()
    }

    fn boundary(&self) -> Boundary {
        let broke = self.found.iter().find(|(_, finding)| !finding.holds).map(|(tiles, _)| *tiles);
        let held = match broke {
            Some(broke) => self.found.range(..broke).next_back().map(|(tiles, _)| *tiles),
            None => self.found.keys().next_back().copied(),
        };
        Boundary { held, broke }
    }

    fn unconfirmed(&self, tiles: u32) -> Option<Probe> {
        let had = self.found.get(&tiles).map_or(0, |finding| finding.repeats);
        (had < self.repeats).then(|| Probe { tiles, repeats: self.repeats - had })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Searches a host that holds `capacity` tiles and tells the counts that were measured.
    fn search(capacity: u32, from: u32, limit: u32, repeats: u32) -> (CapacitySearch, Vec<Probe>) {
        let mut search = CapacitySearch::new(from, limit, repeats);
        let mut probes = Vec::new();
        while let Some(probe) = search.next() {
            let had = search.found.get(&probe.tiles).map_or(0, |finding| finding.repeats);
            search.record(
                probe.tiles,
                Finding { holds: probe.tiles <= capacity, repeats: had + probe.repeats },
            );
            probes.push(probe);
            assert!(probes.len() < 100, "the search does not end: {probes:?}");
        }
        (search, probes)
    }

    proptest! {
        #[test]
        fn the_boundary_is_found_and_confirmed_on_both_sides(capacity in 1_u32..200, from in 1_u32..8, repeats in 1_u32..6) {
            let (search, _) = search(capacity, from, 256, repeats);
            prop_assert_eq!(search.found[&capacity], Finding { holds: true, repeats });
            prop_assert_eq!(search.found[&(capacity + 1)], Finding { holds: false, repeats });
        }
    }

    #[test]
    fn a_host_that_holds_the_limit_is_confirmed_there() {
        let (search, _) = search(1000, 1, 64, 3);
        assert_eq!(search.found[&64], Finding { holds: true, repeats: 3 });
        assert!(search.found.values().all(|finding| finding.holds));
    }

    #[test]
    fn a_host_that_holds_nothing_is_asked_down_to_one() {
        let (search, _) = search(0, 8, 64, 2);
        assert_eq!(search.found[&1], Finding { holds: false, repeats: 2 });
    }

    #[test]
    fn doubling_and_halving_need_few_probes() {
        let (_, probes) = search(21, 1, 1024, 1);
        assert!(probes.len() <= 11, "{probes:?}");
    }

    #[test]
    fn what_fits_at_most_is_confirmed_like_a_limit() {
        let mut search = CapacitySearch::new(4, 64, 2);
        search.record(4, Finding { holds: true, repeats: 1 });
        assert_eq!(search.next(), Some(Probe { tiles: 8, repeats: 1 }));
        assert!(search.never_pass(6));
        assert_eq!(search.next(), Some(Probe { tiles: 6, repeats: 1 }));
        search.record(6, Finding { holds: true, repeats: 1 });
        assert_eq!(search.next(), Some(Probe { tiles: 6, repeats: 1 }));
        search.record(6, Finding { holds: true, repeats: 2 });
        assert_eq!(search.next(), None);
        assert!(!search.never_pass(5), "6 tiles fitted before");
    }

    #[test]
    fn a_boundary_that_turns_is_searched_again() {
        let mut search = CapacitySearch::new(4, 64, 2);
        search.record(4, Finding { holds: true, repeats: 1 });
        search.record(8, Finding { holds: false, repeats: 1 });
        search.record(6, Finding { holds: true, repeats: 1 });
        search.record(7, Finding { holds: false, repeats: 1 });
        assert_eq!(search.next(), Some(Probe { tiles: 7, repeats: 1 }));
        search.record(7, Finding { holds: true, repeats: 2 });
        assert_eq!(search.next(), Some(Probe { tiles: 8, repeats: 1 }));
    }

    #[test]
    fn a_settled_search_confirms_what_it_knows_and_leaves_what_lies_between_untried() {
        let mut search = CapacitySearch::new(4, 64, 3);
        assert!(search.settle());
        assert_eq!(search.next(), None, "it knows nothing");
        let mut search = CapacitySearch::new(4, 64, 3);
        search.record(8, Finding { holds: true, repeats: 1 });
        search.record(16, Finding { holds: false, repeats: 1 });
        assert!(search.settle() && !search.settle());
        let mut probes = Vec::new();
        while let Some(probe) = search.next() {
            let had = search.found[&probe.tiles].repeats;
            search.record(probe.tiles, Finding { holds: probe.tiles <= 8, repeats: had + probe.repeats });
            probes.push((probe.tiles, probe.repeats));
        }
        assert_eq!(probes, [(16, 1), (8, 1), (16, 1), (8, 1)]);
    }

    #[test]
    fn what_cannot_be_told_is_searched_below() {
        let mut search = CapacitySearch::new(4, 64, 2);
        let held = |repeats| Finding { holds: true, repeats };
        search.record(4, held(1));
        search.cannot_tell(8);
        assert_eq!(search.next(), Some(Probe { tiles: 6, repeats: 1 }));
        search.record(6, Finding { holds: false, repeats: 1 });
        assert_eq!(search.next(), Some(Probe { tiles: 5, repeats: 1 }));
        search.cannot_tell(5);
        assert_eq!(search.next(), Some(Probe { tiles: 6, repeats: 1 }), "the boundary is confirmed");
        search.record(6, Finding { holds: false, repeats: 2 });
        search.record(4, held(2));
        assert_eq!(search.next(), None);
        search.record(5, held(1));
        assert_eq!(search.next(), Some(Probe { tiles: 5, repeats: 1 }), "it was told after all");
    }

    #[test]
    fn a_count_that_held_and_can_no_longer_be_told_is_no_side_of_the_boundary() {
        let mut search = CapacitySearch::new(4, 8, 2);
        let held = Finding { holds: true, repeats: 1 };
        search.record(4, held);
        search.record(8, held);
        assert_eq!(search.next(), Some(Probe { tiles: 8, repeats: 1 }), "it is confirmed");
        search.cannot_tell(8);
        let mut probes = Vec::new();
        while let Some(probe) = search.next() {
            probes.push(probe.tiles);
            assert!(probes.len() < 10, "the search does not end: {probes:?}");
            search.record(probe.tiles, Finding { holds: true, repeats: 2 });
        }
        assert_eq!(probes, [6, 7]);
    }

    #[test]
    fn where_nothing_can_be_told_a_search_ends() {
        let mut search = CapacitySearch::new(4, 64, 2);
        for tiles in [4, 2, 1] {
            assert_eq!(search.next(), Some(Probe { tiles, repeats: 1 }));
            search.cannot_tell(tiles);
        }
        assert_eq!(search.next(), None);
    }

    #[test]
    fn what_a_confirmation_will_take_is_known_before_a_probe() {
        let mut search = CapacitySearch::new(4, 64, 3);
        let probe = |tiles, repeats| Probe { tiles, repeats };
        assert_eq!(search.confirmation_after(probe(4, 1)), []);
        search.record(8, Finding { holds: true, repeats: 1 });
        assert_eq!(search.confirmation_after(probe(16, 1)), [probe(16, 2), probe(8, 2)]);
        search.record(16, Finding { holds: false, repeats: 2 });
        assert_eq!(search.confirmation_after(probe(12, 1)), [probe(12, 2), probe(16, 1)]);
    }
}

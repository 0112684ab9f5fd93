//! The search for the largest tile count that holds: doubles until the gate breaks, bisects between the
//! last that held and the first that broke, then measures that boundary on both sides with all repeats.
//!
//! ```text
//! doubling --breaks--> bisecting --neighbours--> boundary --both confirmed--> ended
//!     |                    ^                        |
//!     +--limit held--------+--------reversed--------+
//! ```

use std::collections::BTreeMap;

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
}

impl CapacitySearch {
    /// A search that begins with `from`, never passes `limit` and confirms with so many repeats.
    pub fn new(from: u32, limit: u32, repeats: u32) -> Self {
        Self { from: from.max(1), limit: limit.max(1), repeats: repeats.max(1), found: BTreeMap::new() }
    }

    /// Takes what a count was found to do, over all repeats that it had.
    pub fn record(&mut self, tiles: u32, finding: Finding) {
        self.found.insert(tiles, finding);
    }

    /// Lowers the limit, since more does not fit. Says no where so much was found already: then the host gives
    /// less than it gave, and a search has nothing left to go by.
    pub fn never_pass(&mut self, limit: u32) -> bool {
        let found = self.found.keys().next_back().is_some_and(|most| *most > limit);
        self.limit = self.limit.min(limit.max(1));
        !found && limit > 0
    }

    /// What to measure next; `None` when the boundary is known and confirmed, or nothing broke.
    pub fn next(&self) -> Option<Probe> {
        let broke = self.found.iter().find(|(_, finding)| !finding.holds).map(|(tiles, _)| *tiles);
        let held = match broke {
            Some(broke) => self.found.range(..broke).next_back().map(|(tiles, _)| *tiles),
            None => self.found.keys().next_back().copied(),
        };
        match (held, broke) {
            (None, None) => Some(Probe { tiles: self.from.min(self.limit), repeats: 1 }),
            (Some(held), None) if held < self.limit => {
                Some(Probe { tiles: held.saturating_mul(2).min(self.limit), repeats: 1 })
            }
            (Some(held), Some(broke)) if broke - held > 1 => {
                Some(Probe { tiles: held + (broke - held) / 2, repeats: 1 })
            }
            (None, Some(broke)) if broke > 1 => Some(Probe { tiles: broke / 2, repeats: 1 }),
            // The boundary: the broken side first, since it is likelier to turn.
            (held, broke) => [broke, held].into_iter().flatten().find_map(|tiles| self.unconfirmed(tiles)),
        }
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
}

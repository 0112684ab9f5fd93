//! Placements that are possible on no host.

use crate::{
    problem::Say,
    scenario::{Guest, Scenario, place::PlaceRule, target::Target},
};

/// Entries of a map: as many as guests of a tile.
const MAP_MAX: usize = 100;

/// Reports placements that are possible on no host.
pub(super) fn check(scenario: &Scenario, say: &mut Say<'_>) {
    let place = &scenario.place;
    if let (PlaceRule::None | PlaceRule::PerNode, Some(_)) = (place.guests, place.siblings) {
        let rule = place.guests.name();
        say(
            format!("`place.siblings` does nothing with `place.guests = \"{rule}\"`"),
            "leave it out, or write `place.guests = \"spread\"`, `\"pack\"` or `\"pairs\"`",
        );
    }
    if place.map.len() > MAP_MAX {
        say(
            format!("`place.map` has {} entries", place.map.len()),
            "write 100 at most: a `*` matches any text",
        );
    }
    for (pattern, target) in &place.map {
        if let Err(wrong) = Target::parse(target) {
            say(
                format!("`place.map`: {pattern:?}: {wrong}"),
                "write `\"node:0\"` or `\"cpus:2-3\"`, with the numbers of this host's nodes or processors",
            );
        }
    }
    for guest in &scenario.guest {
        check_pages(guest, say);
    }
}

/// Whether a guest's memory is a whole number of huge pages.
fn check_pages(guest: &Guest, say: &mut Say<'_>) {
    let Some(pages) = guest.hugepages else { return };
    if !guest.memory.get().is_multiple_of(pages.bytes().get()) {
        say(
            format!(
                "guest `{}` has {} of memory, which is not a whole number of pages of {}",
                guest.name,
                guest.memory,
                pages.name()
            ),
            &format!("write a `memory` that is a multiple of {}", pages.name()),
        );
    }
}

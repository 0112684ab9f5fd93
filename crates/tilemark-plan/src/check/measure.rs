//! The ladder, the measurement and the gate.

use crate::{
    network::GUESTS_MAX,
    problem::Say,
    scenario::{Load, LoopKind, Scenario, Surge, SurgeAt},
};

pub(super) fn check_ladder(scenario: &Scenario, say: &mut Say<'_>) {
    let tiles = &scenario.ladder.tiles;
    let rising = tiles.windows(2).all(|pair| pair[0] < pair[1]);
    if tiles.is_empty() || tiles[0] == 0 || !rising {
        say(
            format!("`ladder.tiles = {tiles:?}` is not a valid ladder"),
            "write rising counts from 1, such as [1, 2, 4, 8]",
        );
    }
    let per_tile = u32::try_from(scenario.guest.len()).unwrap_or(u32::MAX);
    let most = tiles.iter().max().copied().unwrap_or(0);
    if most.saturating_mul(per_tile) > GUESTS_MAX {
        let guests = most.saturating_mul(per_tile);
        say(
            format!("{most} tiles are {guests} guests, and a bridge serves 1,000 at most"),
            "lower `ladder.tiles`",
        );
    }
}

pub(super) fn check_measure(scenario: &Scenario, say: &mut Say<'_>) {
    let measure = &scenario.measure;
    if measure.repeats == 0 {
        say(
            "`measure.repeats = 0` measures nothing".to_owned(),
            "write 1 or more; from 3 on there are intervals",
        );
    }
    let length = measure.length.get();
    if length.as_secs() == 0 || length.subsec_nanos() != 0 {
        say(
            format!("`measure.length = \"{}\"` is not a whole number of seconds", measure.length),
            "write whole seconds, such as `10s`",
        );
    }
    if let Some(surge) = measure.surge {
        check_surge(scenario, surge, say);
    }
}

/// The least measurement with a surge, so that each of its parts has two whole seconds.
const SURGE_LENGTH_MIN: u64 = 8;

fn check_surge(scenario: &Scenario, surge: Surge, say: &mut Say<'_>) {
    let Surge { tile, factor, at: SurgeAt::Half } = surge;
    let most = scenario.ladder.tiles.iter().max().copied().unwrap_or(0);
    if tile == 0 || tile > most || most < 2 {
        say(
            format!("`measure.surge.tile = {tile}` has no other tiles beside it in a ladder up to {most}"),
            "name a tile of the ladder, counted from 1, and let the ladder have 2 tiles or more",
        );
    }
    if !(2..=1_000).contains(&factor) {
        say(format!("`measure.surge.factor = {factor}` is not a valid factor"), "write 2 to 1000");
    }
    if scenario.measure.length.get().as_secs() < SURGE_LENGTH_MIN {
        say(
            format!("`measure.length = \"{}\"` is too short for a surge", scenario.measure.length),
            "measure 8s or longer",
        );
    }
    let headline = scenario.load.iter().find(|load| Some(&load.name) == scenario.headline.as_ref());
    let Some(load) = headline else {
        if scenario.load.is_empty() {
            let message = "`measure.surge` asks more of the headline load, and there is no load";
            say(
                message.to_owned(),
                "add a load `web` or `sessions` with a `rate`, or leave out `measure.surge`",
            );
        }
        return;
    };
    if load.loop_kind == LoopKind::Closed || load.work.facts().is_flat_out() {
        let message = format!(
            "`measure.surge` is of load `{}`, a closed loop: its users ask when they are answered",
            load.name
        );
        say(message, "give the headline load a `rate`, or leave out `measure.surge`");
    } else if load.rate.is_some_and(|rate| rate.get() * f64::from(factor) > Load::RATE_MAX as f64) {
        say(
            format!(
                "`measure.surge.factor = {factor}` makes over 10000000 requests a second of load `{}`",
                load.name
            ),
            "make the factor or the rate smaller",
        );
    } else if load.sender().is_some() || !load.work.facts().can_swell() {
        let message = format!(
            "`measure.surge` is of load `{}`, which is not a load `web` or `sessions` from outside",
            load.name
        );
        let remedy =
            "make a load `web` or `sessions` without `from` the headline, or leave out `measure.surge`";
        say(message, remedy);
    }
}

pub(super) fn check_gate(scenario: &Scenario, say: &mut Say<'_>) {
    let times = [("p99", Some(scenario.gate.p99)), ("mean", scenario.gate.mean)];
    for (name, time) in times.into_iter().filter_map(|(name, time)| Some((name, time?))) {
        if time.get().is_zero() {
            say(
                format!("no request can keep `gate.{name} = \"{time}\"`"),
                "write a time above 0, such as `20ms`",
            );
        }
    }
    let has_pages = scenario.load.iter().any(|load| load.work.facts().good_and_tolerable().is_some());
    let limits = [("good", scenario.gate.good), ("tolerable", scenario.gate.tolerable)];
    for (name, _) in limits.into_iter().filter(|(_, limit)| limit.is_some() && !has_pages) {
        say(
            format!("`gate.{name}` is of pages, and no load has any"),
            "leave it out, or add a `load.sessions`",
        );
    }
}

//! What each load needs of the guest that it loads, of the one that sends it and of the other loads.

use super::names::repeated;
use crate::{
    problem::Say,
    scenario::{Arrival, FROM_CLIENTS, Guest, Load, LoopKind, Measure, Role, Scenario},
    workload::{Exclusive, Place},
};
use tilemark_units::{Bytes, Span, did_you_mean, listed};

pub(super) fn check(scenario: &Scenario, say: &mut Say<'_>) {
    check_headline(scenario, say);
    for load in &scenario.load {
        check_load(scenario, load, say);
    }
}

fn check_headline(scenario: &Scenario, say: &mut Say<'_>) {
    let known: Vec<&str> = scenario.load.iter().map(|load| load.name.as_str()).collect();
    match &scenario.headline {
        Some(name) if !known.contains(&name.as_str()) => {
            let meant = did_you_mean(name, &known);
            let remedy = name_one_of(&known, "add a `[[load]]` of this name, or leave out `headline`");
            say(format!("`headline = \"{name}\"` names no load{meant}"), &remedy);
        }
        None if !known.is_empty() => {
            let remedy = format!(
                "name the main load, one of: {}; p99 and throughput of a step are those of this load",
                listed(&known)
            );
            say("there are loads and no `headline`".to_owned(), &remedy);
        }
        _ => {}
    }
}

/// A remedy: one of the names that are known, or what else to do where there are none.
fn name_one_of(known: &[&str], otherwise: &str) -> String {
    if known.is_empty() { otherwise.to_owned() } else { format!("name one of: {}", listed(known)) }
}

/// The names of the guests for which something is so.
fn names_of_guests(scenario: &Scenario, is_so: impl Fn(&Guest) -> bool) -> Vec<&str> {
    scenario.guest.iter().filter(|guest| is_so(guest)).map(|guest| guest.name.as_str()).collect()
}

/// Whether the tile has the guest that is loaded, and the guest can serve the load.
fn check_loaded_guest(scenario: &Scenario, load: &Load, say: &mut Say<'_>) {
    let (name, facts) = (&load.name, load.work.facts());
    let can_serve = |guest: &Guest| guest.roles().iter().any(|role| facts.fits(*role));
    match scenario.guest.iter().find(|guest| guest.name == load.guest) {
        None => {
            let known = names_of_guests(scenario, |_| true);
            let meant = did_you_mean(&load.guest, &known);
            say(
                format!("load `{name}` is for guest `{}`, which the tile does not have{meant}", load.guest),
                &name_one_of(&known, "add a `[[guest]]`"),
            );
        }
        Some(guest) if !can_serve(guest) => {
            let (role, wanted) = (guest.said_roles(), facts.role().name());
            let right = format!("give guest `{}` the role `{wanted}`", guest.name);
            let fitting = names_of_guests(scenario, can_serve);
            let remedy = match fitting.is_empty() {
                true => right,
                false => format!("{right}, or name one of: {}", listed(&fitting)),
            };
            say(
                format!("load `{name}` needs a guest with role `{wanted}`, `{}` is {role}", guest.name),
                &remedy,
            );
        }
        Some(guest) => facts.check(&load.own_keys(), guest, &scenario.measure, say),
    }
}

fn check_load(scenario: &Scenario, load: &Load, say: &mut Say<'_>) {
    let name = &load.name;
    let facts = load.work.facts();
    check_loaded_guest(scenario, load, say);
    if load.is_from_clients() {
        check_from_clients(scenario, load, say);
    } else if let Some(from) = load.sender() {
        check_sender(scenario, load, from, say);
    }
    let rate = load.rate.map_or(0.0, |rate| rate.get());
    if load.loop_kind == LoopKind::Open && rate <= 0.0 && facts.needs_rate() {
        let what = if load.rate.is_some() { "with the rate 0" } else { "without a rate" };
        say(
            format!("load `{name}` is an open loop {what}"),
            "give a rate above 0, such as `rate = \"100/s\"`, or `loop = \"closed\"`",
        );
    }
    if load.loop_kind == LoopKind::Closed && load.rate.is_some() {
        say(format!("load `{name}` is a closed loop with a rate"), "leave out one of the two");
    }
    if load.connections == 0 {
        say(format!("load `{name}` has no connection"), "write `connections = 1` or more");
    }
    if load.arrival == Arrival::Bursts {
        check_bursts(scenario, load, say);
    }
}

/// Whether a measurement has whole periods of bursts. With a part of one, what is asked would depend on which part, and could be nothing.
fn check_bursts(scenario: &Scenario, load: &Load, say: &mut Say<'_>) {
    let Load { name, burst_every, burst_length, .. } = load;
    if burst_length.get().is_zero() || burst_length > burst_every {
        say(
            format!("load `{name}`: a burst of {burst_length} every {burst_every}"),
            "write a `burst_length` above 0 and at most `burst_every`",
        );
        return;
    }
    let (every, length) = (burst_every.get().as_nanos(), scenario.measure.length);
    let comes_in_bursts = load.rate.is_some() && load.work.facts().needs_rate();
    if !comes_in_bursts || length.get().as_nanos().is_multiple_of(every) {
        return;
    }
    let whole = whole_periods(*burst_every, length)
        .map_or_else(String::new, |longer| format!("write `measure.length = \"{longer}\"`, or "));
    say(
        format!(
            "load `{name}`: `measure.length = \"{length}\"` is not a whole number of periods of `burst_every = \"{burst_every}\"`"
        ),
        &format!("{whole}give a `burst_every` that divides `measure.length`"),
    );
}

/// The least measurement that is as long as this one and has whole periods; it has whole seconds too. None where it would be longer
/// than a measurement may be.
fn whole_periods(every: Span, length: Span) -> Option<Span> {
    let within = length.get().as_secs()..=Measure::LENGTH_MAX.get().as_secs();
    within.map(Span::from_seconds).find(|span| span.get().as_nanos().is_multiple_of(every.get().as_nanos()))
}

/// Whether client machines can send a load: their agent has the engines of loads from outside, and no image.
fn check_from_clients(scenario: &Scenario, load: &Load, say: &mut Say<'_>) {
    let name = &load.name;
    let facts = load.work.facts();
    if facts.place() == Place::Inside {
        let work = load.work.name();
        let message = format!(
            "load `{name}` is sent from `{FROM_CLIENTS}`, and `{work}` runs inside the guest that it loads"
        );
        say(message, "leave out `from`");
    }
    if scenario.guest.iter().any(|guest| guest.name == FROM_CLIENTS) {
        let message =
            format!("load `{name}` is sent from `{FROM_CLIENTS}`, which is the name of a guest too");
        say(message, "give that guest another name: the word means the client machines of the site file");
    }
}

/// Whether the guest that sends a load can.
fn check_sender(scenario: &Scenario, load: &Load, from: &str, say: &mut Say<'_>) {
    let name = &load.name;
    if load.work.facts().place() == Place::Inside {
        let work = load.work.name();
        let message =
            format!("load `{name}` is sent from `{from}`, and `{work}` runs inside the guest that it loads");
        say(message, "leave out `from`");
    }
    match scenario.guest.iter().find(|guest| guest.name == from) {
        None => {
            let known = names_of_guests(scenario, |guest| guest.serves(Role::Client));
            let meant = did_you_mean(from, &[&known[..], &[FROM_CLIENTS]].concat());
            say(
                format!("load `{name}` is sent from guest `{from}`, which the tile does not have{meant}"),
                &name_one_of(&known, "add a guest with role `client`"),
            );
        }
        Some(guest) if !guest.serves(Role::Client) => {
            let role = guest.said_roles();
            say(
                format!("load `{name}` is sent from guest `{from}`, whose role is {role}"),
                "name a guest with role `client`: it serves nobody, so what it sends is all that it does",
            );
        }
        Some(guest) => check_memory_of_sender(load, guest, say),
    }
}

/// Whether a sender has the memory for what it checks answers with, which it holds as the loaded guest does.
fn check_memory_of_sender(load: &Load, sender: &Guest, say: &mut Say<'_>) {
    let needed = load.work.facts().memory();
    if needed > Bytes::new(sender.memory.get() / 2) {
        let message = format!(
            "load `{}` has {} that its sender holds too, and guest `{}` has {} of memory",
            load.name,
            needed.rounded(),
            sender.name,
            sender.memory
        );
        say(message, "give the sending guest twice that memory, or use fewer or smaller files");
    }
}

/// Whether a guest can serve all of its loads with the same services.
pub(super) fn check_what_is_served(scenario: &Scenario, say: &mut Say<'_>) {
    for guest in &scenario.guest {
        check_one_shape(scenario, guest, say);
    }
    for guest in &scenario.guest {
        check_one_way(scenario, guest, say);
    }
}

/// A service that its load shapes is shaped once.
fn check_one_shape(scenario: &Scenario, guest: &Guest, say: &mut Say<'_>) {
    for role in guest.roles() {
        let shapes = |load: &&Load| {
            let facts = load.work.facts();
            load.guest == guest.name && facts.shapes_service() && facts.role() == role
        };
        let mut shaping = scenario.load.iter().filter(shapes);
        let Some(first) = shaping.next() else { continue };
        let Some(other) = shaping.find(|load| load.work != first.work) else { continue };
        say(
            format!(
                "guest `{}` would have to serve load `{}` and load `{}`, which want different services",
                guest.name, first.name, other.name
            ),
            "give each of them a guest of its own, or the same values",
        );
    }
}

/// A broker has one port: with TLS or without.
fn check_one_way(scenario: &Scenario, guest: &Guest, say: &mut Say<'_>) {
    let of_broker = |load: &&Load| load.guest == guest.name && load.work.facts().role() == Role::Broker;
    let with = |tls: bool| {
        scenario.load.iter().filter(of_broker).find(|load| load.work.facts().service_has_tls() == tls)
    };
    if let (Some(secured), Some(plain)) = (with(true), with(false)) {
        say(
            format!(
                "the broker of guest `{}` would have to serve load `{}` with TLS and load `{}` without",
                guest.name, secured.name, plain.name
            ),
            "give each of them a guest of its own, or write `tls = true` in both",
        );
    }
}

/// Whether a guest has two of what it can serve one of only.
pub(super) fn check_exclusive(scenario: &Scenario, say: &mut Say<'_>) {
    let shared = |load: &Load| Some((exclusive(load)?, load.sender().unwrap_or(&load.guest).to_owned()));
    for (what, guest) in repeated(scenario.load.iter().filter_map(shared)) {
        say(format!("guest `{guest}` has two {}", what.loads()), what.remedy());
    }
}

/// What a guest can serve one of only: the one that sends the load, or the one that is loaded.
fn exclusive(load: &Load) -> Option<Exclusive> {
    if load.sender().is_some() { Some(Exclusive::Inside) } else { load.work.facts().exclusive() }
}

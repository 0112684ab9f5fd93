//! From the text of a scenario, with presets and settings applied, to a checked [`Scenario`].

use crate::{
    check_limits::{LENGTH_MAX, check_document, check_limits, check_text},
    host_settings,
    problem::{Problem, Problems},
    resolve::HOST_PRESET,
    said::in_our_words,
    scenario::{Arrival, FROM_CLIENTS, Guest, Load, LoopKind, Role, SCENARIO_SCHEMA, Scenario},
    settings,
    unreadable::{self, Typed},
    workload::{self, Alone, Place, Say},
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tilemark_units::{Bytes, Span};

/// Guests that one bridge serves. It has 1,024 ports (Linux's BR_MAX_PORTS); some are kept for templates and a load's own
/// device.
pub const GUESTS_MAX: u32 = 1000;

pub use crate::check_limits::SCENARIO_BYTES_MAX;

/// A scenario's text as a document on which settings can still be put.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    document: Value,
    origin: String,
    typed: Typed,
}

impl Draft {
    /// Reads TOML. `origin` is the file or name, for messages.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, Problems> {
        check_text(text, origin, "scenario")?;
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            Problem::new(not_toml(text, origin, &error), "correct the line that is named")
        })?;
        if let Some(message) = settings::not_finite(&toml::Value::Table(table.clone()), "") {
            return Err(Problem::new(format!("{origin}: {message}"), settings::FINITE).into());
        }
        let mut document = serde_json::to_value(table).map_err(|error| {
            Problem::new(format!("{origin}: {error}"), "use text, numbers, lists and tables only")
        })?;
        host_settings::flatten(&mut document)
            .map_err(|message| Problem::new(format!("{origin}: {message}"), "leave out one of them"))?;
        check_document(&document, origin)?;
        Ok(Self { document, origin: origin.to_owned(), typed: Typed::new() })
    }

    /// The file or name that it was read from.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether the scenario has such a preset.
    pub fn has_preset(&self, name: &str) -> bool {
        self.document.get("preset").and_then(|presets| presets.get(name)).is_some()
    }

    /// Puts the values of a preset in place.
    pub fn apply_preset(&mut self, name: &str) -> Result<(), Problems> {
        let presets = self.document.get("preset").and_then(Value::as_object).cloned().unwrap_or_default();
        let Some(values) = presets.get(name).and_then(Value::as_object) else {
            // That of every scenario is last.
            let own = presets.keys().map(String::as_str).filter(|own| *own != HOST_PRESET);
            let known: Vec<&str> = own.chain([HOST_PRESET]).collect();
            let remedy = format!("this scenario has: {}", known.join(", "));
            return Err(Problem::new(format!("no preset `{name}`"), remedy).into());
        };
        for (key, value) in values {
            self.set(key, value.clone())?;
        }
        Ok(())
    }

    /// Puts one value in place.
    pub fn set(&mut self, key: &str, value: Value) -> Result<(), Problems> {
        settings::set(&mut self.document, key, value).map_err(|message| {
            Problem::new(message, "see the keys with `tilemark scenarios show NAME`").into()
        })
    }

    /// Puts `KEY=VALUE` settings in place.
    pub fn apply_settings(&mut self, settings: &BTreeMap<String, String>) -> Result<(), Problems> {
        self.apply_typed("--set", settings)
    }

    /// The same, of another flag than `--set`, such as `--a`: messages show it.
    pub fn apply_typed(
        &mut self,
        flag: &'static str,
        settings: &BTreeMap<String, String>,
    ) -> Result<(), Problems> {
        self.typed.extend(settings.keys().map(|key| (key.clone(), flag)));
        let mut problems = Vec::new();
        for (key, text) in settings {
            match settings::value_of_flag(key, text) {
                Ok(value) => {
                    problems.extend(self.set(key, value).err().into_iter().flat_map(|found| found.0))
                }
                Err(message) => problems.push(Problem::new(message, settings::FINITE)),
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
    }

    /// The scenario, checked as far as it can be without a host. All problems are told at once.
    pub fn finish(&self) -> Result<Scenario, Problems> {
        let mut scenario = unreadable::read(&self.document, &self.typed)?;
        if let ([only], None) = (&scenario.load[..], &scenario.headline) {
            scenario.headline = Some(only.name.clone());
        }
        let problems = check(&scenario);
        if problems.is_empty() { Ok(scenario) } else { Err(Problems(problems)) }
    }
}

/// Where a text is no TOML: `shop.toml, line 14: key with no value, expected `=`: [ladder`.
pub(crate) fn not_toml(text: &str, origin: &str, error: &toml::de::Error) -> String {
    /// Characters of the line, and of the reason, that are shown.
    const SHOWN: usize = 250;
    let cut = |text: &str| match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} [...]", &text[..end]),
        None => text.to_owned(),
    };
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let number = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
    let line = text.lines().nth(number).unwrap_or_default().trim();
    let reason = in_our_words(&error.message().replace('\n', ", "));
    format!("{origin}, line {}: {}: {}", number + 1, cut(&reason), cut(line))
}

fn check(scenario: &Scenario) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut say = |message: String, remedy: &str| problems.push(Problem::new(message, remedy));
    if scenario.schema != SCENARIO_SCHEMA {
        say(format!("`schema = {}` is not known", scenario.schema), "write `schema = 1`");
    }
    if scenario.name.is_empty()
        || scenario.name.len() > 40
        || scenario.name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '-')
    {
        say(
            format!("`name = {:?}` is not a valid name", scenario.name),
            "use at most 40 letters, digits and `-`",
        );
    }
    if scenario.guest.is_empty() {
        say("the tile has no guest".to_owned(), "add a `[[guest]]`");
    }
    for name in repeated(scenario.guest.iter().map(|guest| guest.name.as_str())) {
        say(format!("two guests are called `{name}`"), "give each guest of the tile its own name");
    }
    for name in repeated(scenario.load.iter().map(|load| load.name.as_str())) {
        say(format!("two loads are called `{name}`"), "give each load its own name");
    }
    for guest in &scenario.guest {
        if guest.vcpus == 0 {
            say(format!("guest `{}` has no processor", guest.name), "write `vcpus = 1` or more");
        }
        if guest.memory.as_mib() < 64.0 {
            let memory = guest.memory;
            say(format!("guest `{}` has {memory} of memory", guest.name), "give it 64MiB or more");
        }
        workload::check_broker_memory(guest, &mut say);
    }
    crate::guest_image::check_image(scenario, &mut say);
    crate::services::check_services(scenario, &mut say);
    check_limits(scenario, &mut say);
    crate::place::check_wishes(scenario, &mut say);
    crate::qemu_keys::check(scenario, &mut say);
    crate::vary::check(scenario, &mut say);
    check_ladder(scenario, &mut say);
    check_measure(scenario, &mut say);
    let known: BTreeSet<&str> = scenario.load.iter().map(|load| load.name.as_str()).collect();
    match &scenario.headline {
        Some(name) if !known.contains(name.as_str()) => {
            say(format!("`headline = \"{name}\"` names no load"), "name one of the scenario's loads");
        }
        None if !scenario.load.is_empty() => {
            say(
                "there are loads and no `headline`".to_owned(),
                "name the main load: p99 and throughput of a step are those of this load",
            );
        }
        _ => {}
    }
    for load in &scenario.load {
        check_load(scenario, load, &mut say);
    }
    let has_pages = scenario.load.iter().any(|load| load.work.facts().good_and_tolerable().is_some());
    let limits = [("good", scenario.gate.good), ("tolerable", scenario.gate.tolerable)];
    for (name, _) in limits.into_iter().filter(|(_, limit)| limit.is_some() && !has_pages) {
        say(
            format!("`gate.{name}` is of pages, and no load has any"),
            "leave it out, or add a `load.sessions`",
        );
    }
    for guest in &scenario.guest {
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
    for guest in &scenario.guest {
        check_one_way(scenario, guest, &mut say);
    }
    for (guest, asked) in scenario.guest.iter().filter_map(|guest| Some((guest, guest.asks.as_ref()?))) {
        check_asked(scenario, guest, asked, &mut say);
    }
    let alone = |load: &Load| Some((alone_on(load)?, load.sender().unwrap_or(&load.guest).to_owned()));
    for (what, guest) in repeated(scenario.load.iter().filter_map(alone)) {
        say(format!("guest `{guest}` has two {}", what.loads()), what.remedy());
    }
    problems
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

fn check_ladder(scenario: &Scenario, say: &mut Say<'_>) {
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
            format!("{most} tiles are {guests} guests"),
            "a bridge serves 1,000 guests at most: lower `ladder.tiles`",
        );
    }
}

fn check_measure(scenario: &Scenario, say: &mut Say<'_>) {
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

fn check_surge(scenario: &Scenario, surge: crate::scenario::Surge, say: &mut Say<'_>) {
    let crate::scenario::Surge { tile, factor, at: crate::scenario::SurgeAt::Half } = surge;
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
    } else if load.rate.is_some_and(|rate| rate.get() * f64::from(factor) > crate::check_limits::RATE_MAX) {
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

fn check_load(scenario: &Scenario, load: &Load, say: &mut Say<'_>) {
    let name = &load.name;
    let facts = load.work.facts();
    let wanted = facts.role();
    match scenario.guest.iter().find(|guest| guest.name == load.guest) {
        None => say(
            format!("load `{name}` is for guest `{}`, which the tile does not have", load.guest),
            "name a guest",
        ),
        Some(guest) if !guest.roles().iter().any(|role| facts.fits(*role)) => {
            let (role, wanted) = (guest.said_roles(), wanted.name());
            say(
                format!("load `{name}` needs a guest with role `{wanted}`, `{}` is {role}", guest.name),
                "change one",
            );
        }
        Some(guest) => facts.check(load, guest, &scenario.measure, say),
    }
    if load.is_from_clients() {
        check_from_clients(scenario, load, say);
    } else if let Some(from) = load.sender() {
        check_sender(scenario, load, from, say);
    }
    let rate = load.rate.map_or(0.0, |rate| rate.get());
    if load.loop_kind == LoopKind::Open && rate <= 0.0 && facts.needs_rate() {
        say(
            format!("load `{name}` is an open loop without a rate"),
            "write `rate = \"100/s\"` or `loop = \"closed\"`",
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
    let within = length.get().as_secs()..=LENGTH_MAX.get().as_secs();
    within.map(Span::from_seconds).find(|span| span.get().as_nanos().is_multiple_of(every.get().as_nanos()))
}

/// What a guest can serve one of only: the one that sends the load, or the one that is loaded.
fn alone_on(load: &Load) -> Option<Alone> {
    if load.sender().is_some() { Some(Alone::Inside) } else { load.work.facts().alone_on() }
}

/// Whether the guest that a guest asks can answer.
fn check_asked(scenario: &Scenario, guest: &Guest, asked: &str, say: &mut Say<'_>) {
    let (name, role) = (&guest.name, guest.said_roles());
    if !guest.serves(Role::Web) {
        let message = format!("guest `{name}` with role {role} asks guest `{asked}`");
        say(message, "leave out `asks`, or make its role `web`: only a web server's pages ask a back end");
    }
    match scenario.guest.iter().find(|guest| guest.name == asked) {
        None => say(
            format!("guest `{name}` asks guest `{asked}`, which the tile does not have"),
            "name a guest with role `backend`",
        ),
        Some(other) if !other.serves(Role::Backend) => {
            let message =
                format!("guest `{name}` asks guest `{asked}`, whose role is {}", other.said_roles());
            say(message, "name a guest with role `backend`");
        }
        Some(_) => {}
    }
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
        None => say(
            format!("load `{name}` is sent from guest `{from}`, which the tile does not have"),
            "name a guest with role `client`",
        ),
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

fn repeated<T: Ord + Clone>(names: impl Iterator<Item = T>) -> BTreeSet<T> {
    let mut seen = BTreeSet::new();
    names.filter(|name| !seen.insert(name.clone())).collect()
}

//! From a scenario, what was asked for and what the host is, to a [`Plan`]. A pure function: the same
//! inputs give the same plan.

mod fit;
mod point;
mod sizes;
mod variants;

pub use crate::{
    order::passes,
    request::{HOST_PRESET, Request},
    sides::Sides,
};

use crate::{
    emulated, expect,
    host_settings::HostSettings,
    own_disk,
    parse::Draft,
    place::Made,
    plan::{HostSummary, PLAN_SCHEMA, Plan, Point, Search},
    problem::Problems,
    qemu_keys,
    scenario::{BrokerService, Guest, RequestedImage, Role},
    screening::{self, Screened},
};
use fit::{search_limit, swells_nothing, unfit, unplaced};
use point::On;
use sizes::{ladder_of_host, split_processors};
use std::collections::BTreeMap;
use variants::{Variant, roles_together, screened, variants};

/// The image of guests whose broker is not our own, which is in the agent.
const BROKERS_IMAGE: &str = "brokers";

/// The scenario with preset, settings and tiles in their places: all that needs no host.
pub fn as_asked(
    draft: &Draft,
    preset: Option<&str>,
    settings: &BTreeMap<String, String>,
    tiles: Option<&[u32]>,
) -> Result<Draft, Problems> {
    let mut asked = draft.clone();
    if let Some(preset) = preset.filter(|preset| !fits_host(draft, preset)) {
        asked.apply_preset(preset)?;
    }
    asked.apply_settings(settings)?;
    if let Some(tiles) = tiles {
        asked.set("ladder.tiles", serde_json::json!(tiles))?;
    }
    Ok(asked)
}

/// Whether a preset is the one that every scenario has, and not one of its own.
fn fits_host(draft: &Draft, preset: &str) -> bool {
    preset == HOST_PRESET && !draft.has_preset(HOST_PRESET)
}

/// Resolves everything; reports all problems at once.
pub fn resolve(draft: &Draft, request: &Request, host: &HostSummary) -> Result<Plan, Problems> {
    let preset = request.preset.as_deref();
    let mut draft = as_asked(draft, preset, &request.settings, request.tiles.as_deref())?;
    let mut scenario = draft.finish()?;
    let processors = split_processors(host, scenario.host.load_processors);
    if preset.is_some_and(|preset| fits_host(&draft, preset)) && request.tiles.is_none() {
        let tiles = ladder_of_host(&scenario, request, host, &processors);
        draft.set("ladder.tiles", serde_json::json!(tiles))?;
        scenario = draft.finish()?;
    }
    let variants = match &request.screening {
        Some(screening) => screened(&scenario, screening, request)?,
        None if request.interference => roles_together(&scenario, request)?,
        None => variants(&draft, &scenario, request)?,
    };

    // Sides are compared at one step unless more are asked for: each repeat of each costs as much as a step.
    let is_one_step =
        request.search || request.screening.is_some() || (request.sides.is_some() && request.tiles.is_none());
    let tiles = if is_one_step { &scenario.ladder.tiles[..1] } else { &scenario.ladder.tiles[..] };
    // What varies may name brokers that the scenario itself does not.
    let foreign = |guest: &Guest| guest.serves(Role::Broker) && guest.broker != BrokerService::Reference;
    if scenario.image == crate::scenario::default_image()
        && variants.iter().any(|variant| variant.scenario.guest.iter().any(foreign))
    {
        scenario.image = RequestedImage::Named(BROKERS_IMAGE.to_owned());
    }
    let mut points = Vec::new();
    // Which points are of which variant.
    let mut ranges = Vec::new();
    // Where the twin of a search is measured is known when the search has its answer.
    let backends =
        if request.search { request.backends.get(..1).unwrap_or_default() } else { &request.backends[..] };
    for variant in &variants {
        let first = points.len();
        for &backend in backends {
            let of_roles = variant.together.as_ref().map(|together| [together.tiles()]);
            for &tiles in of_roles.as_ref().map_or(tiles, |tiles| &tiles[..]) {
                points.push(variant.point(
                    points.len(),
                    tiles,
                    backend,
                    On { host, processors: &processors },
                    request.seed,
                ));
            }
        }
        ranges.push(first..points.len());
    }
    if let (Some(backend), [variant, ..]) = (request.demonstrate, variants.as_slice()) {
        let mut point =
            variant.point(points.len(), 1, backend, On { host, processors: &processors }, request.seed);
        point.measure.repeats = 1;
        points.push(point);
    }
    let mut problems = qemu_keys::ignored(request, &scenario);
    problems.extend(own_disk::twins(request, variants.iter().map(|variant| &variant.scenario)));
    for (variant, range) in variants.iter().zip(&ranges) {
        problems.extend(swells_nothing(&variant.scenario, &points[range.clone()], request, host));
    }
    problems.dedup();
    problems.extend(unfit(&points, host, request));
    problems.extend(emulated::problems(&points, processors.guests.len()));
    if problems.is_empty() {
        let made = variants.iter().zip(ranges).map(|(variant, range)| Made {
            scenario: &variant.scenario,
            points: points[range].iter().collect(),
        });
        let on = On { host, processors: &processors };
        let whole = request.interference.then_some(&scenario);
        problems.extend(unplaced(&made.collect::<Vec<_>>(), whole, request, on));
    }
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let passes = passes(&points, request.seed);
    let search = request.search.then(|| {
        let search = Search {
            from: scenario.ladder.tiles[0],
            limit: search_limit(&scenario, host),
            guess: scenario.ladder.tiles.iter().max().map_or(1, |tiles| tiles.div_ceil(2)),
            within: None,
            twin: request.backends.len() > 1,
            memory_end: None,
        };
        // What is also shown must end within the same time, and the twin too.
        let left = |within| expect::less_other_points(within, host, &points, &search);
        Search { within: request.within.map(left), ..search }
    });
    let expected = expect::of(host, &points, &passes, search.as_ref());
    Ok(Plan {
        schema: PLAN_SCHEMA,
        scenario,
        origin: draft.origin().to_owned(),
        preset: request.preset.clone(),
        settings: request.settings.clone(),
        sides: request.sides.clone(),
        seed: request.seed,
        host: host.clone(),
        processors,
        points,
        passes,
        search,
        screening: request.screening.clone(),
        confirm_blocks: if request.interference { request.confirm_blocks } else { 0 },
        within: request.within,
        expected,
    })
}

impl Plan {
    /// A point at another tile count than those that were planned, for a search.
    pub fn point_at(&self, like: &Point, index: usize, tiles: u32) -> Point {
        let variant = Variant {
            scenario: self.scenario.clone(),
            side: like.side,
            vary: like.vary.clone(),
            together: None,
            screened: like.screened.clone(),
            host: like.host.clone(),
            chosen: self.settings.keys().cloned().collect(),
        };
        let on = On { host: &self.host, processors: &self.processors };
        variant.point(index, tiles, like.backend, on, self.seed)
    }

    /// A point that confirms what a screening found, beside those that were planned.
    pub fn point_to_confirm(
        &self,
        index: usize,
        screened: Screened,
        host: HostSettings,
        pairs: u32,
    ) -> Point {
        let like = Point { screened: Some(screened.clone()), host, ..self.points[0].clone() };
        let mut point = self.point_at(&like, index, like.tiles);
        point.vary = [(screening::SETTINGS.to_owned(), screened.to_string())].into();
        point.measure.repeats = pairs;
        point
    }
}

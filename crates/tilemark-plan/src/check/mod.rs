//! What a scenario cannot be, as far as it is known without a host. Each topic has its file; all problems are found at once.

mod guests;
mod image;
pub(crate) mod limits;
mod loads;
mod measure;
mod names;
mod own_disk;
mod place;
mod qemu;
mod services;
pub(crate) mod text;
pub(crate) mod vary;

use crate::{
    problem::Problem,
    scenario::{SCENARIO_SCHEMA, Scenario},
};

/// Every problem of a scenario that was read.
pub(crate) fn check(scenario: &Scenario) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut say = |message: String, remedy: &str| problems.push(Problem::new(message, remedy));
    if scenario.schema != SCENARIO_SCHEMA {
        say(format!("`schema = {}` is not known", scenario.schema), "write `schema = 1`");
    }
    names::check(scenario, &mut say);
    guests::check_size(scenario, &mut say);
    image::check(&scenario.image, &mut say);
    services::check(scenario, &mut say);
    limits::check(scenario, &mut say);
    place::check(scenario, &mut say);
    qemu::check(scenario, &mut say);
    vary::check(scenario, &mut say);
    measure::check_ladder(scenario, &mut say);
    measure::check_measure(scenario, &mut say);
    loads::check(scenario, &mut say);
    measure::check_gate(scenario, &mut say);
    loads::check_what_is_served(scenario, &mut say);
    guests::check_asks(scenario, &mut say);
    loads::check_exclusive(scenario, &mut say);
    problems
}

//! `tilemark plan`

use super::{backend, settings};
use crate::{
    arguments::PlanArguments,
    screen::{self, Form},
};
use std::process::ExitCode;
use tilemark_run::{
    plan::prepare::{Asked, prepare},
    plan::text,
};

/// Prints what would be done.
pub(crate) fn plan(arguments: &PlanArguments) -> ExitCode {
    let form = Form::of(arguments.json);
    let asked = Asked {
        scenario: arguments.scenario.clone(),
        on: backend(arguments.resolution.on),
        preset: arguments.resolution.preset.clone(),
        settings: settings(&arguments.resolution.set),
        tiles: arguments.tiles.clone(),
        twin: arguments.twin,
        seed: arguments.resolution.seed,
        ..Asked::default()
    };
    match prepare(&asked) {
        Err(failure) => screen::fail(&failure, form),
        Ok(prepared) => {
            match form {
                Form::Json => screen::print_json(&prepared.plan),
                Form::Text => screen::print_text(&text::of(&prepared)),
            }
            ExitCode::SUCCESS
        }
    }
}

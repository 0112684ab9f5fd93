//! `tilemark doctor`

use crate::screen::{self, Form};
use std::process::ExitCode;
use tilemark_report::Colour;
use tilemark_run::standalone::doctor;

/// Says what this host has and lacks.
pub(crate) fn doctor(json: bool) -> ExitCode {
    let diagnosis = doctor::diagnose();
    match Form::of(json) {
        Form::Json => screen::print_json(&diagnosis.json()),
        Form::Text => screen::print_painted(&diagnosis.text(screen::style().colour == Colour::Ansi)),
    }
    ExitCode::SUCCESS
}

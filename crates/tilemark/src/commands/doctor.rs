//! `tilemark doctor`

use super::run::wanted_bridge;
use crate::{
    arguments::DoctorArguments,
    screen::{self, Form},
};
use std::process::ExitCode;
use tilemark_report::Colour;
use tilemark_run::standalone::doctor;

/// Says what this host has and lacks, and whether guests can be joined to the bridge of a site file.
pub(crate) fn doctor(arguments: &DoctorArguments) -> ExitCode {
    let form = Form::of(arguments.json.json);
    let wanted = match wanted_bridge(&arguments.site) {
        Ok(wanted) => wanted,
        Err(failure) => return screen::fail(&failure, form),
    };
    let diagnosis = doctor::diagnose(wanted.as_ref());
    match form {
        Form::Json => screen::print_json(&diagnosis.json()),
        Form::Text => screen::print_painted(&diagnosis.text(screen::style().colour == Colour::Ansi)),
    }
    diagnosis.said().into_iter().for_each(screen::note);
    ExitCode::SUCCESS
}

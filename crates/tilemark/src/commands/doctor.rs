//! `tilemark doctor`

use crate::{
    arguments::DoctorArguments,
    carried::PROGRAM,
    exit::HOST_UNFIT,
    screen::{self, Form},
    site::{site, wanted_bridge},
};
use std::process::ExitCode;
use tilemark_report::Colour;
use tilemark_run::{clients::look, standalone::doctor};

/// Says what this host has and lacks; of a site file also whether guests can be joined to its bridge, and what its client machines are.
pub(crate) fn doctor(arguments: &DoctorArguments) -> ExitCode {
    let form = Form::of(arguments.json.json);
    let site = match site(&arguments.site) {
        Ok(site) => site,
        Err(failure) => return screen::fail(&failure, form),
    };
    let diagnosis = doctor::diagnose(site.as_ref().and_then(wanted_bridge).as_ref());
    let clients = site.as_ref().map(|site| look::look(&PROGRAM, site)).unwrap_or_default();
    match form {
        Form::Json if clients.is_empty() => screen::print_json(&diagnosis.json()),
        Form::Json => screen::print_json(&look::with_clients(&diagnosis.json(), &clients)),
        Form::Text => {
            screen::print_painted(&diagnosis.text(screen::style().colour == Colour::Ansi));
            if !clients.is_empty() {
                screen::print_text(&format!("\nClients: {}", look::text(&clients)));
            }
        }
    }
    diagnosis.said().into_iter().for_each(screen::note);
    match look::unusable(&clients) {
        Some(failure) => screen::fail(&failure, Form::Text),
        // As the run would end.
        None if diagnosis.refuses_bridge() => ExitCode::from(HOST_UNFIT),
        None => ExitCode::SUCCESS,
    }
}

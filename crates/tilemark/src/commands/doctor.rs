//! `tilemark doctor`

use super::run::{site_of, wanted_bridge};
use crate::{
    PROGRAM,
    arguments::DoctorArguments,
    screen::{self, Form},
};
use serde_json::{Value, json};
use std::process::ExitCode;
use tilemark_fleet::Site;
use tilemark_report::Colour;
use tilemark_run::{
    clients::look::{self, ClientLook},
    failure::{Failure, FailureCode},
    standalone::doctor::{self, Diagnosis},
};

/// Says what this host has and lacks; with a site file also whether guests can be joined to its bridge, and what its clients are.
pub(crate) fn doctor(arguments: &DoctorArguments) -> ExitCode {
    let form = Form::of(arguments.json.json);
    let site = match site_of(&arguments.site) {
        Ok(site) => site,
        Err(failure) => return screen::fail(&failure, form),
    };
    let diagnosis = doctor::diagnose(site.as_ref().and_then(wanted_bridge).as_ref());
    let clients = site.as_ref().filter(|site| !site.clients.is_empty()).map(looked_at);
    match form {
        Form::Json => match document(&diagnosis, clients.as_deref()) {
            Ok(document) => screen::print_json(&document),
            Err(failure) => return screen::fail(&failure, form),
        },
        Form::Text => {
            screen::print_painted(&diagnosis.text(screen::style().colour == Colour::Ansi));
            diagnosis.said().into_iter().for_each(screen::note);
            if let Some(clients) = &clients {
                screen::print_text(&format!("\nClients: {}", look::text(clients)));
            }
        }
    }
    // Those that cannot be used are a failure beside what was printed.
    match clients.as_deref().and_then(look::unusable) {
        Some(failure) => screen::fail(&failure, Form::Text),
        None => ExitCode::SUCCESS,
    }
}

fn looked_at(site: &Site) -> Vec<ClientLook> {
    look::look(&PROGRAM, site)
}

fn document(diagnosis: &Diagnosis, clients: Option<&[ClientLook]>) -> Result<Value, Failure> {
    let unprintable =
        |error: serde_json::Error| Failure::from_error(FailureCode::Bug, &error, "leave out `--json`");
    let mut document = serde_json::to_value(diagnosis.json()).map_err(unprintable)?;
    if let Some(clients) = clients {
        document["clients"] = json!(clients);
    }
    Ok(document)
}

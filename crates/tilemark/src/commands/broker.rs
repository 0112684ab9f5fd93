//! `tilemark broker`

use crate::{
    arguments::BrokerArguments,
    screen::{self, Form},
};
use std::process::ExitCode;
use tilemark_run::standalone::broker::{self, BrokerSettings};

/// Runs the reference broker, or checks its journal.
pub(crate) fn broker(arguments: BrokerArguments) -> ExitCode {
    if let Some(folder) = &arguments.check {
        return match broker::check_journal(folder) {
            Err(failure) => screen::fail(&failure, Form::Text),
            Ok(found) => {
                screen::print_text(&format!("{found}\n"));
                ExitCode::SUCCESS
            }
        };
    }
    let has_tls = arguments.tls_cert.is_some();
    let listening = |address| {
        let tls = if has_tls { " with TLS" } else { "" };
        screen::note(&format!("listening on {address}{tls}; guest/guest from this machine; Ctrl-C ends it"))
    };
    let settings = BrokerSettings {
        listen: arguments.listen,
        tls: arguments.tls_cert.zip(arguments.tls_key),
        journal: arguments.journal,
        accept_damage: arguments.accept_damage,
        memory_limit: arguments.memory_limit,
        notify: |notice| screen::note(&notice.to_string()),
    };
    match broker::run(settings, listening) {
        Err(failure) => screen::fail(&failure, Form::Text),
        Ok(()) => ExitCode::SUCCESS,
    }
}

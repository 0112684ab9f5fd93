//! `tilemark broker`

use crate::{
    arguments::BrokerArguments,
    screen::{self, Form},
};
use std::process::ExitCode;
use tilemark_run::standalone::messaging;

/// Runs the reference broker.
pub(crate) fn broker(arguments: BrokerArguments) -> ExitCode {
    let listening = |address| {
        screen::note(&format!("listening on {address}; guest/guest from this machine; Ctrl-C ends it"))
    };
    match messaging::broker(arguments.listen, arguments.journal, listening) {
        Err(failure) => screen::fail(&failure, Form::Text),
        Ok(()) => ExitCode::SUCCESS,
    }
}

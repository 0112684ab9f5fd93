//! `tilemark data`

use crate::{
    arguments::{DataCommand, DataStoreArguments},
    screen::{self, Form, Watcher},
};
use std::process::ExitCode;
use tilemark_run::data::{self, StoreDataRequest};

/// Writes data.
pub(crate) fn data(command: &DataCommand) -> ExitCode {
    match command {
        DataCommand::Store(arguments) => store(arguments),
    }
}

fn store(arguments: &DataStoreArguments) -> ExitCode {
    let form = Form::of(arguments.json);
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let request = StoreDataRequest {
        size: arguments.size.clone(),
        as_ds2: arguments.like.is_some(),
        seed: arguments.seed,
        threads: arguments.threads.unwrap_or(all),
        out: arguments.out.clone(),
    };
    let mut watcher = Watcher::new();
    let written = data::store(&request, &mut watcher);
    drop(watcher);
    match written {
        Err(failure) => screen::fail(&failure, form),
        Ok(written) => {
            match form {
                Form::Json => screen::print_json(&written),
                Form::Text => screen::print_text(&format!(
                    "{:.1} MB in {:.1} s, in {}",
                    written.bytes as f64 / 1e6,
                    written.seconds,
                    request.out.display()
                )),
            }
            ExitCode::SUCCESS
        }
    }
}

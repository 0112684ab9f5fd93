//! `tilemark data`

use crate::{
    arguments::{DataCommand, DataStoreArguments},
    screen::{self, Form, Watcher},
};
use std::{path::Path, process::ExitCode};
use tilemark_run::{
    progress::Listener,
    standalone::store_data::{self, StoreDataRequest},
    standalone::{password, store_load},
};

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
    };
    match (&arguments.out, &arguments.into) {
        (Some(out), _) => files(&request, out, form),
        (None, Some(database)) => into_database(&request, database, form),
        (None, None) => unreachable!("clap wants one of the two"),
    }
}

fn files(request: &StoreDataRequest, out: &Path, form: Form) -> ExitCode {
    let mut watcher = Watcher::new();
    let written = store_data::store(request, out, &mut watcher);
    drop(watcher);
    screen::show(written, form, |written| {
        format!("{:.1} MB in {:.1} s, in {}", written.bytes as f64 / 1e6, written.seconds, out.display())
    })
}

fn into_database(request: &StoreDataRequest, database: &str, form: Form) -> ExitCode {
    let mut watcher = Watcher::new();
    let loaded = store_load::address(database).and_then(|address| {
        if let Some(advice) = password::advice(database, password::DATABASE) {
            watcher.note(&advice);
        }
        store_load::load_into(request, &address, &mut watcher)
    });
    drop(watcher);
    screen::show(loaded, form, |loaded| {
        let (mb, seconds) = (loaded.bytes as f64 / 1e6, loaded.seconds);
        format!("{mb:.1} MB loaded, indexed and checked in {seconds:.1} s, in {}", loaded.database)
    })
}

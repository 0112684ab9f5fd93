//! `tilemark runs trend`

use crate::{
    places::places,
    records::tags_of,
    screen::{self, Form},
};
use std::{path::Path, process::ExitCode};
use tilemark_record::{RunDirectory, Runs};
use tilemark_report::Trend;
use tilemark_run::{
    failure::Failure,
    run::{
        result::draw_to,
        trend::{self, Tagged},
    },
};

/// Shows the runs of a scenario over time.
pub(crate) fn trend(scenario: &str, html: Option<&Path>, is_json: bool) -> ExitCode {
    let form = Form::of(is_json);
    match followed(scenario, html) {
        Err(failure) => screen::fail(&failure, form),
        Ok(trend) => {
            match form {
                Form::Json => screen::print_json(&trend),
                Form::Text => screen::print_painted(&trend.terminal(screen::style())),
            }
            ExitCode::SUCCESS
        }
    }
}

fn followed(scenario: &str, html: Option<&Path>) -> Result<Trend, Failure> {
    let runs = Runs::new(&places().runs);
    let tagged = |id: String| {
        let record = RunDirectory::at(&runs.path_of(&id));
        Ok(Tagged { tags: tags_of(&record)?, record })
    };
    let records: Vec<Tagged> = runs.ids().into_iter().map(tagged).collect::<Result<_, Failure>>()?;
    let trend = trend::trend(scenario, records)?;
    if let Some(path) = html {
        draw_to(path, &trend.html())?;
        screen::note(&format!("Written: {}", path.display()));
    }
    Ok(trend)
}

//! `tilemark scenarios`

use crate::{
    arguments::ScenariosCommand,
    screen::{self, Form},
};
use std::process::ExitCode;
use tilemark_run::plan::prepare;

/// Lists and shows the scenarios inside the program.
pub(crate) fn scenarios(command: ScenariosCommand) -> ExitCode {
    match command {
        ScenariosCommand::List(flags) => {
            let known = prepare::scenarios();
            match Form::of(flags.json) {
                Form::Json => {
                    let known: Vec<_> = known
                        .iter()
                        .map(|scenario| {
                            serde_json::json!({
                                "name": scenario.name, "about": scenario.about, "presets": scenario.presets,
                            })
                        })
                        .collect();
                    screen::print_json(&serde_json::json!({ "scenarios": known }));
                }
                Form::Text => {
                    for scenario in known {
                        let presets = scenario.presets.join(", ");
                        let presets =
                            if presets.is_empty() { presets } else { format!(" (presets: {presets})") };
                        screen::print_text(&format!("{}{presets}\n  {}\n", scenario.name, scenario.about));
                    }
                }
            }
            ExitCode::SUCCESS
        }
        ScenariosCommand::Show { name } => match prepare::text_of(&name) {
            Err(failure) => screen::fail(&failure, Form::Text),
            Ok(text) => {
                screen::print_text(&text);
                ExitCode::SUCCESS
            }
        },
    }
}

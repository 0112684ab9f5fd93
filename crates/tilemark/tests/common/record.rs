//! Records that no run made.

use super::Home;
use std::{path::PathBuf, sync::OnceLock};
use tilemark_record::RunDirectory;

/// A closed record in this home; the figures in it are none.
pub fn record_of(home: &Home, id: &str) -> PathBuf {
    let plan = home.says(&["plan", "web", "--on", "native", "--json"]).out;
    let path = home.file(&format!("runs/{id}/plan.json"), &plan);
    let record = RunDirectory::at(path.parent().unwrap());
    let result = tilemark_fixtures::figures::result(id, "web");
    record.write_json("result.json", &result).unwrap();
    home.file(&format!("runs/{id}/facts.json"), facts_of_this_host(home));
    record.events().unwrap().append(&tilemark_record::Event::Interrupted).unwrap();
    record.close().unwrap();
    record.path().to_owned()
}

/// Read once for all records of a test program.
fn facts_of_this_host(home: &Home) -> &'static str {
    static FACTS: OnceLock<String> = OnceLock::new();
    FACTS.get_or_init(|| home.says(&["doctor", "--json"]).json()["facts"].to_string())
}

//! Records that no run made.

use super::Home;
use std::{collections::BTreeMap, path::PathBuf, sync::OnceLock};
use tilemark_record::{
    RunDirectory,
    result::{Answer, Limit, LimitResource, Provenance, RESULT_SCHEMA, RunResult, Verdict, VerdictStatus},
};

/// A closed record in this home; the figures in it are none.
pub fn record_of(home: &Home, id: &str) -> PathBuf {
    let plan = home.says(&["plan", "web", "--on", "native", "--json"]).out;
    let path = home.file(&format!("runs/{id}/plan.json"), &plan);
    let record = RunDirectory::at(path.parent().unwrap());
    let limit = Limit { resource: LimitResource::Unknown, evidence: Vec::new() };
    let result = RunResult {
        schema: RESULT_SCHEMA,
        judged_by: tilemark_record::result::JUDGED_BY,
        run: id.to_owned(),
        scenario: "web".to_owned(),
        preset: None,
        verdict: Verdict { status: VerdictStatus::CannotTell, reasons: Vec::new() },
        answer: Answer {
            backend: None,
            holds: None,
            undecided: None,
            breaks: None,
            confidence: None,
            capacity: None,
            more: None,
            untried: None,
            vcpus_per_thread: None,
            limit,
            none_because: None,
        },
        sentence: String::new(),
        cost: None,
        comparison: None,
        function: None,
        scaling: Vec::new(),
        interference: None,
        screening: None,
        points: Vec::new(),
        idle_power_w: None,
        provenance: Provenance::default(),
        missing: BTreeMap::new(),
    };
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

//! What a user keeps of runs: shown, tagged, noted and removed, while closed records are unchanged.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, record::record_of};
use serde_json::json;
use tilemark_record::RunDirectory;

const ID: &str = "20260101-000000-web";

#[test]
fn tags_and_a_note_are_in_the_list_and_in_every_row_and_the_record_stays_whole() {
    let home = Home::new();
    let record = record_of(&home, ID);
    let said = home.says(&["runs", "tag", "2026", "new-qemu", "rack-4", "--json"]);
    assert_eq!(said.json(), json!({ "id": ID, "tags": ["new-qemu", "rack-4"] }), "{said:?}");
    home.says(&["runs", "tag", ID, "rack-4", "--remove"]);
    assert_eq!(home.says(&["runs", "note", ID, "After the update."]).code, Some(0));
    let shown = home.says(&["runs", "show", "--json"]).json();
    assert_eq!((&shown["tags"], &shown["note"]), (&json!(["new-qemu"]), &json!("After the update.")));
    assert!(home.says(&["runs", "show", ID]).out.contains("After the update."));
    assert_eq!(home.says(&["runs", "--json"]).json()["runs"][0]["tags"], json!(["new-qemu"]));
    RunDirectory::at(&record).verify().unwrap();

    let file = home.path().join("rows.csv");
    home.says(&["report", ID, "--csv", file.to_str().unwrap()]).ended(0);
    let text = std::fs::read_to_string(&file).unwrap();
    let mut rows = text.lines();
    assert!(rows.next().unwrap().starts_with("run,began,host,tags,point,"), "{text}");
    assert!(rows.all(|row| row.starts_with(&format!("{ID},"))), "{text}");
}

#[test]
fn a_record_is_removed_only_with_consent_and_what_is_none_stays() {
    let home = Home::new();
    let record = record_of(&home, ID);
    home.says(&["runs", "tag", ID, "old"]);
    let said = home.says(&["runs", "rm", ID]).ended(2);
    assert!(
        said.error.contains("nothing was removed") && said.error.contains("--yes") && record.exists(),
        "{said:?}"
    );

    let other = home.file("other/plan.json", "{}").parent().unwrap().to_owned();
    let said = home.says(&["runs", "rm", other.to_str().unwrap(), "--yes"]).ended(2);
    assert!(said.error.contains("is not a record of a run") && other.join("plan.json").exists(), "{said:?}");

    assert_eq!(home.says(&["runs", "rm", ID, "--yes"]).code, Some(0));
    assert!(!record.exists());
    let notes = std::fs::read_to_string(home.path().join("runs/notes.json")).unwrap();
    assert!(!notes.contains(ID), "what was written of it goes with it: {notes}");
}

#[test]
fn a_run_that_is_removed_leaves_its_baselines_and_two_names_of_it_are_one() {
    let home = Home::new();
    let ids = [ID, "20260102-000000-web", "20260103-000000-web"];
    let records = ids.map(|id| record_of(&home, id));
    home.says(&["runs", "baseline", "before", ids[0], ids[1]]);
    home.says(&["runs", "baseline", "only", ids[0]]);
    let said = home.says(&["runs", "rm", ids[0], "20260101", records[0].to_str().unwrap(), "--yes"]).ended(0);
    assert_eq!(said.out.matches("removed ").count(), 1, "{said:?}");
    let baselines = home.says(&["runs", "baseline", "--json"]).json();
    assert_eq!(baselines["baselines"], json!({ "before": [ids[1]] }));

    // A record that somebody removed by hand can be taken out by its name.
    std::fs::remove_dir_all(&records[1]).unwrap();
    home.says(&["runs", "baseline", "before", ids[2]]);
    let said = home.says(&["runs", "baseline", "before", ids[1], "--remove", "--json"]);
    assert_eq!(said.json(), json!({ "baselines": { "before": [ids[2]] } }), "{said:?}");
}

#[test]
fn a_run_without_an_answer_is_listed_with_what_is_wrong_with_it() {
    let home = Home::new();
    let ids = [ID, "20260102-000000-web", "20260103-000000-web"];
    let [unfinished, damaged, newer] = ids.map(|id| record_of(&home, id));
    std::fs::remove_file(unfinished.join("manifest.json")).unwrap();
    std::fs::write(damaged.join("result.json"), "{").unwrap();
    std::fs::write(newer.join("result.json"), r#"{"schema": 99}"#).unwrap();
    let said = home.says(&["runs"]);
    let states = ["unfinished", "damaged", "newer format"];
    for ((id, state), line) in ids.iter().zip(states).zip(said.out.lines()) {
        assert!(line.starts_with(&format!("{id}  {state}")), "{said:?}");
    }
    assert!(said.out.contains("has format 99, and this program knows up to 1"), "{said:?}");
    let found = home.says(&["runs", "--json"]).json();
    for (run, state) in
        found["runs"].as_array().unwrap().iter().zip(["unfinished", "damaged", "newer-format"])
    {
        assert_eq!((&run["no_answer"], &run["verdict"]), (&json!(state), &json!(null)), "{run}");
    }
}

#[test]
fn what_cannot_be_a_tag_or_a_note_is_refused() {
    let home = Home::new();
    record_of(&home, ID);
    for (arguments, message) in [
        (&["runs", "tag", ID, "two words"][..], "`two words` cannot be a tag"),
        (&["runs", "tag", ID, ""], "`` cannot be a tag"),
        (&["runs", "tag", "1999", "x"], "no run `1999`"),
        (&["runs", "note", ID, &"x".repeat(5000)], "longer than 4096"),
        (&["runs", "rm", "1999", "--yes"], "no run `1999`"),
        (&["runs", "show", "1999"], "no run `1999`"),
    ] {
        home.says(arguments).ended(2).with_error(message);
    }
}

#[test]
fn a_result_as_json_has_id_date_host_and_tags() {
    let home = Home::new();
    record_of(&home, ID);
    home.says(&["runs", "tag", ID, "rack-4"]);
    let found = home.says(&["report", ID, "--json"]).json();
    assert_eq!((&found["id"], &found["tags"]), (&json!(ID), &json!(["rack-4"])));
    assert!(found["began"].is_string() && found["host"].is_string() && found["run"] == ID, "{found}");
    let found = home.says(&["report", ID, "--json", "--redact"]).json();
    assert_eq!((&found["host"], &found["tags"]), (&json!(""), &json!([])), "a tag may name a machine");
}

#[test]
fn three_records_are_compared_in_every_form() {
    let home = Home::new();
    let ids = ["20260101-000000-web", "20260102-000000-web", "20260103-000000-web"];
    ids.iter().for_each(|id| drop(record_of(&home, id)));
    let file = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let (html, markdown, junit) = (file("c.html"), file("c.md"), file("c.xml"));
    let mut arguments = vec!["compare"];
    arguments.extend(ids);
    arguments.extend(["--html", &html, "--markdown", &markdown, "--junit", &junit]);
    let said = home.says(&arguments).ended(5);
    let first = said.out.find(ids[2]).unwrap();
    assert!(first < said.out.find("B2 against A").unwrap(), "records come first: {said:?}");
    assert!(said.error.contains("c.xml") && said.error.contains("c.html"), "{said:?}");
    for (path, text) in [(html, "<!doctype html>"), (markdown, "## Records"), (junit, "<testsuites")] {
        assert!(std::fs::read_to_string(&path).unwrap().contains(text), "{path}");
    }
    let mut arguments = vec!["compare", "--json"];
    arguments.extend(ids);
    let found = home.says(&arguments).json();
    assert_eq!(found["comparisons"].as_array().unwrap().len(), 2);
    assert_eq!(found["sides"][2]["runs"][0]["id"], ids[2]);
    assert!(found["a"].is_null(), "there is no single B");
    arguments.push("--exit-verdict");
    assert_eq!(home.says(&arguments).code, Some(125));
}

#[test]
fn runs_over_time_are_shown_and_what_has_no_figures_is_named() {
    let home = Home::new();
    home.says(&["runs", "trend", "web"]).ended(2).with_error("no run of the scenario `web`");
    record_of(&home, ID);
    home.says(&["runs", "tag", ID, "rack-4"]);
    let page = home.path().join("trend.html");
    let said = home.says(&["runs", "trend", "web", "--html", page.to_str().unwrap()]).ended(0);
    assert!(said.out.contains(ID) && said.out.contains("no step was measured"), "{said:?}");
    assert!(std::fs::read_to_string(page).unwrap().contains(ID));
    let found = home.says(&["runs", "trend", "web", "--json"]).json();
    assert_eq!((&found["scenario"], &found["left_out"][0]["id"]), (&json!("web"), &json!(ID)));
    // Tags that cannot be read are no tags that are not there.
    home.file("runs/notes.json", "{");
    home.says(&["runs", "trend", "web"]).ended(2).with_error("notes.json is damaged");
}

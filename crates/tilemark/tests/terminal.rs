//! Nothing foreign rules the terminal: what guests, records, images and files say is shown and not obeyed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, on_a_terminal, real::Real, record::record_of};
use serde_json::{Value, json};
use std::fs;
use tilemark_record::{Event, RunDirectory};

/// Clears the screen, sets the title, does so with one-character forms, overwrites the line, erases, turns the direction.
const EVIL: &str =
    "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}2J\u{9d}0;owned\u{9c}x\ry\u{8}\u{8}\u{202e}detsurt\u{2066}\u{7f}";
/// What the terminal itself makes of a line end.
const LINE_END: &str = "\r\n";

/// Fails where a terminal would obey something in it; colours of ours are allowed.
#[track_caller]
fn obeys_nothing(arguments: &[&str], shown: &str) {
    let lines = shown.replace(LINE_END, "\n");
    let mut rest = lines.as_str();
    while let Some(at) = rest.find(|c: char| tilemark_units::is_unprintable(c) && !matches!(c, '\n' | '\t')) {
        let colour = rest[at..].strip_prefix("\u{1b}[").and_then(|after| {
            let (numbers, after) = after.split_once('m')?;
            ["0", "1", "2", "31", "32", "33", "31;1", "32;1", "33;1", "9;2"]
                .contains(&numbers)
                .then_some(after)
        });
        let Some(after) = colour else { panic!("{arguments:?} lets through {:?}", &rest[at..]) };
        rest = after;
    }
}

/// The command shows the attack, and a terminal obeys nothing of it.
#[track_caller]
fn shown_and_not_obeyed(home: &Home, arguments: &[&str]) {
    for no_color in [None, Some("1")] {
        let shown = on_a_terminal(home, arguments, no_color);
        obeys_nothing(arguments, &shown);
        assert!(shown.contains("detsurt"), "{arguments:?} shows nothing of the attack: {shown}");
    }
    let said = home.says(arguments);
    obeys_nothing(arguments, &said.out);
    obeys_nothing(arguments, &said.error);
}

/// The command ends with this code and shows these words, and a terminal obeys nothing of it.
#[track_caller]
fn answers_and_is_not_obeyed(home: &Home, arguments: &[&str], code: i32, words: &str) {
    let shown = on_a_terminal(home, arguments, None);
    obeys_nothing(arguments, &shown);
    assert!(shown.contains(words), "{arguments:?} does not show {words:?}: {shown}");
    let said = home.says(arguments);
    obeys_nothing(arguments, &said.out);
    obeys_nothing(arguments, &said.error);
    assert_eq!(said.code, Some(code), "{arguments:?}: {said:?}");
}

/// A scenario and image file whose name holds the attack.
fn toml_with_attack() -> String {
    format!("schema = 1\nname = \"{EVIL}\"\n")
}

#[test]
fn files_that_are_quoted_in_errors_cannot_control_the_terminal() {
    let home = Home::new();
    let file = home.file("evil.toml", &toml_with_attack());
    let file = file.to_str().unwrap();
    // Refused before the parser could quote the line.
    let wanted = "line 2 holds the character";
    answers_and_is_not_obeyed(&home, &["plan", file], 2, wanted);
    answers_and_is_not_obeyed(&home, &["plan", file, "--json"], 2, wanted);
    answers_and_is_not_obeyed(&home, &["image", "build", file], 2, wanted);
    // Without a `schema` it is an image's specification.
    let image = home.file("image.toml", &toml_with_attack().replace("schema = 1\n", ""));
    shown_and_not_obeyed(&home, &["image", "build", image.to_str().unwrap()]);
    // A file's name too, and what a script hands on as a flag.
    shown_and_not_obeyed(&home, &["plan", &format!("./{EVIL}.toml")]);
    shown_and_not_obeyed(&home, &["report", EVIL]);
    shown_and_not_obeyed(&home, &["runs", &format!("--{EVIL}")]);
    shown_and_not_obeyed(&home, &["runs", &format!("--{EVIL}"), "--json"]);
}

/// Puts the attack at the end of every text of a document, but for words that only mean something whole.
fn poison(document: &mut Value, whole: &[&str]) {
    match document {
        Value::String(text) => text.push_str(EVIL),
        Value::Array(all) => all.iter_mut().for_each(|one| poison(one, whole)),
        Value::Object(all) => {
            all.iter_mut()
                .filter(|(key, _)| !whole.contains(&key.as_str()))
                .for_each(|(_, one)| poison(one, whole));
        }
        _ => {}
    }
}

/// A closed record that somebody sent, with the attack in its words.
fn evil_record(home: &Home, id: &str) {
    let path = record_of(home, id).join("result.json");
    let mut result: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    result["sentence"] = "It holds.".into();
    result["answer"]["none_because"] = "nothing was measured".into();
    result["answer"]["limit"]["evidence"] = json!(["none"]);
    poison(&mut result, &["run", "status", "resource"]);
    fs::write(&path, result.to_string()).unwrap();
    let record = RunDirectory::at(path.parent().unwrap());
    record.events().unwrap().append(&Event::Note { text: EVIL.to_owned() }).unwrap();
    record.close().unwrap();
}

#[test]
fn third_party_records_cannot_control_the_terminal() {
    let home = Home::new();
    let (a, b) = ("20260101-000000-web", "20260102-000000-web");
    evil_record(&home, a);
    evil_record(&home, b);
    shown_and_not_obeyed(&home, &["runs"]);
    shown_and_not_obeyed(&home, &["runs", "--json"]);
    shown_and_not_obeyed(&home, &["report", a]);
    shown_and_not_obeyed(&home, &["report", a, "--json"]);
    answers_and_is_not_obeyed(&home, &["compare", a, b], 5, "no step was measured on both sides");
    answers_and_is_not_obeyed(&home, &["compare", a, b, "--json"], 5, "no step was measured on both sides");
    // A record that was changed after it was closed.
    let result = home.path().join("runs").join(a).join("result.json");
    fs::write(result, format!("{{\"{EVIL}\": 1}}")).unwrap();
    answers_and_is_not_obeyed(&home, &["report", a], 2, "result.json is damaged");
    answers_and_is_not_obeyed(&home, &["report", a, "--json"], 2, "result.json is damaged");
    answers_and_is_not_obeyed(&home, &["runs"], 0, "damaged");
}

#[test]
fn json_escaped_for_a_terminal_means_the_same() {
    let home = Home::new();
    evil_record(&home, "20260101-000000-web");
    let runs = home.says(&["runs", "--json"]).json();
    assert_eq!(runs["runs"][0]["sentence"], format!("It holds.{EVIL}"));
}

/// Ends the guests with the test.
struct Down<'a>(&'a Home);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        let _ = self.0.command(&["guests", "down"]).output();
    }
}

/// The attack as the argument of the shell's `printf`.
fn printed_by_shell() -> String {
    EVIL.bytes().map(|byte| format!("\\{byte:03o}")).collect()
}

#[test]
fn a_guest_cannot_control_the_terminal() {
    let Some(real) = Real::new() else { return };
    let home = &real.home;
    let _down = Down(home);
    let up = ["guests", "up", "1", "--on", "native", "--offline", "--no-memory", "--json"];
    let name = home.says(&up).json()["guests"][0]["name"].as_str().unwrap().to_owned();

    let print = format!("printf '{0}'; printf '{0}' >&2", printed_by_shell());
    let exec = ["guests", "exec", name.as_str(), "--", "sh", "-c", print.as_str()];
    let shown = on_a_terminal(home, &exec, None);
    obeys_nothing(&exec, &shown);
    assert_eq!(shown.matches("detsurt").count(), 2, "both streams are shown: {shown}");
    // A file or a program gets what the guest wrote, byte by byte.
    let said = home.says(&exec);
    assert_eq!((said.out.as_str(), said.error.as_str()), (EVIL, EVIL));

    // The console is whatever its serving process has open as standard output.
    let write = format!(
        "for fd in /proc/[0-9]*/fd/1; do [ -p $fd -o -f $fd ] && printf '\\nhi {0}\\n' >>$fd; done; true",
        printed_by_shell()
    );
    assert_eq!(home.says(&["guests", "exec", &name, "--", "sh", "-c", &write]).code, Some(0));
    let console = ["guests", "console", name.as_str()];
    shown_and_not_obeyed(home, &console);
    let file = home.says(&console).out;
    assert!(file.contains("tilemark-agent: ready") && file.contains("hi \\u{1b}[2J"), "{file}");
}

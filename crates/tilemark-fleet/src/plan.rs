//! What each host answers before anything is submitted: is it there, is it ours, is it fit, and how long would it take?

use crate::{
    carrier::{Answer, Question, ask},
    error::FleetError,
    folder::Fleet,
    job::job,
    run::each_host,
    slurm::ENDED_BEFORE,
};
use serde::Serialize;
use serde_json::Value;
use std::{sync::Mutex, time::Duration};
use tilemark_site::{Host, Site, SiteEngine, Slurm};
use tilemark_units::{Span, printable_line};

/// Timing an accelerator takes a few seconds, on a slow host many.
const ANSWER_WITHIN: Duration = Duration::from_secs(180);

/// What a host answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedHost {
    /// Its name.
    pub name: String,
    /// Whether the fleet run may be submitted to it.
    pub fit: bool,
    /// What is wrong, each with what to do.
    pub problems: Vec<String>,
    /// What is worth knowing and stops nothing.
    pub notes: Vec<String>,
    /// The version of Tilemark there.
    pub version: Option<String>,
    /// SHA-256 of its program.
    pub program_sha256: Option<String>,
    /// How long it would measure, as its own plan has it.
    pub time: Option<String>,
}

/// Asks all hosts at the same time, in the order of the site.
///
/// # Errors
/// Never of a host: what is wrong with one is in its answer.
pub fn plan(fleet: &Fleet) -> Result<Vec<PlannedHost>, FleetError> {
    let answers = Mutex::new(Vec::new());
    each_host(&fleet.site.hosts, |host| {
        let planned = planned(fleet, host);
        if let Ok(mut answers) = answers.lock() {
            answers.push(planned);
        }
        Ok(())
    })?;
    let mut answers = answers.into_inner().unwrap_or_default();
    let place = |of: &PlannedHost| fleet.site.hosts.iter().position(|host| host.name == of.name);
    answers.sort_by_key(place);
    Ok(answers)
}

/// What to know where Slurm would end the work of a host before it is done.
fn too_long(site: &Site, expected: Span) -> Option<String> {
    let SiteEngine::Slurm(Slurm { time_s: Some(time_s), .. }) = &site.engine else { return None };
    let time = Span::from_seconds(*time_s);
    (expected.get() + ENDED_BEFORE > time.get()).then(|| {
        format!(
            "it would measure for about {}, and Slurm asks a job to end one minute before its `time`, which is {}: only the repeats that are whole by then would count; \
             raise `time` in the site file",
            expected.rounded(),
            time.rounded()
        )
    })
}

fn planned(fleet: &Fleet, host: &Host) -> PlannedHost {
    let mut planned = PlannedHost {
        name: host.name.clone(),
        fit: false,
        problems: Vec::new(),
        notes: Vec::new(),
        version: None,
        program_sha256: None,
        time: None,
    };
    let job = job(fleet, &host.name);
    let question =
        Question { verb: "ask", fleet: &fleet.id, seconds: 0, attempt: 0, job: &job, within: ANSWER_WITHIN };
    let mut answer = match ask(&fleet.site, host, question) {
        Ok(answer) => answer,
        Err(error) => {
            planned.problems.push(format!("{error}; {}", error.remedy(&fleet.site, host)));
            return planned;
        }
    };
    if let Some(program) = answer.value("missing") {
        let fix = "install it there (docs/fleet.md), or set `program` in the site file";
        planned.problems.push(format!("there is no `{}`; {fix}", shown(program)));
        return planned;
    }
    planned.version = answer.value("version").map(|version| shown(version.trim_start_matches("tilemark ")));
    planned.program_sha256 = answer.value("hash").map(shown);
    if planned.version.as_deref() != Some(&fleet.version) {
        let there = planned.version.as_deref().unwrap_or("none");
        planned.problems.push(format!(
            "it has Tilemark {there}, and this machine {}; install the same one on both",
            fleet.version
        ));
    } else if planned.program_sha256.as_deref() != Some(&fleet.program_sha256) {
        planned.notes.push("its program is another build of the same version: figures of hosts with different builds may differ for that reason".to_owned());
    }
    for lacking in answer.lines.iter().filter_map(|line| line.strip_prefix("lacks ")) {
        planned
            .problems
            .push(format!("it has no {}; install that version there, or a newer one", shown(lacking)));
    }
    if let Some(other) = answer.value("busy") {
        planned
            .notes
            .push(format!("the fleet run {} measures there now: this one would wait for it", shown(other)));
    }
    if let Err(why) = read_plan(&mut planned, &mut answer, &fleet.site) {
        planned.problems.push(shown(&format!(
            "its plan could not be read: {why}; see what `tilemark plan` prints there"
        )));
    }
    match named_by_doctor(&mut answer) {
        Ok(keys) if keys.is_empty() => {}
        Ok(keys) => planned.notes.push(shown(&format!("`tilemark doctor` there names {}", keys.join(", ")))),
        Err(why) => planned.notes.push(shown(&format!("its `tilemark doctor` could not be read: {why}"))),
    }
    planned.fit = planned.problems.is_empty();
    planned
}

fn shown(text: &str) -> String {
    printable_line(text).into_owned()
}

/// A JSON document of a host's answer, or why it cannot be read.
fn document(answer: &mut Answer, name: &str) -> Result<Value, String> {
    let text = answer.text(name).ok_or("it is not in the answer")?;
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// Puts what the host's plan has into what is known of it: the time, or why it cannot measure. The error is why the plan cannot be read.
fn read_plan(planned: &mut PlannedHost, answer: &mut Answer, site: &Site) -> Result<(), String> {
    let document = document(answer, "plan")?;
    if answer.value("planned") == Some("0") {
        let time = document["expected"]["time"].as_str().ok_or("it has no `expected.time`")?;
        let expected = time.parse().map_err(|error| format!("`expected.time` is {time:?}: {error}"))?;
        planned.time = Some(shown(time));
        planned.notes.extend(too_long(site, expected));
        return Ok(());
    }
    let error = &document["error"];
    let message = error["message"].as_str().unwrap_or("it printed no plan");
    let remedy = error["remedy"].as_str().unwrap_or_default();
    planned.problems.push(shown(&format!("{message}; {remedy}")));
    Ok(())
}

/// The keys of the findings of `tilemark doctor` on a host, or why they cannot be read.
fn named_by_doctor(answer: &mut Answer) -> Result<Vec<String>, String> {
    let document = document(answer, "doctor")?;
    let findings = document["findings"].as_array().ok_or_else(|| {
        let why = document["error"]["message"].as_str().unwrap_or("it has no `findings`");
        why.to_owned()
    })?;
    Ok(findings.iter().filter_map(|finding| finding["key"].as_str()).map(str::to_owned).collect())
}

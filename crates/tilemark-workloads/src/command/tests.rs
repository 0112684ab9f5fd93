use super::*;
use crate::threads::only;
use tilemark_agent_protocol::BroughtFile;
use tilemark_load::figures::Gathered;
use tilemark_plan::{plan::Demand, workload::Better};
use tilemark_units::Span;

fn shell(script: &str, pattern: impl Fn(&mut CommandParameters)) -> CommandParameters {
    let run = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let mut parameters = CommandParameters { run, ..CommandParameters::default() };
    pattern(&mut parameters);
    parameters
}

fn rate(parameters: &mut CommandParameters) {
    parameters.rate = Some("tps: ([0-9.]+)".to_owned());
}

fn figure(parameters: &mut CommandParameters) {
    parameters.figure = Some("score ([0-9.]+)".to_owned());
    (parameters.unit, parameters.better) = (Some("points".to_owned()), Some(Better::Higher));
}

fn job(parameters: CommandParameters) -> LoadJob {
    let target = "10.77.1.5:80".parse().unwrap();
    LoadJob {
        streams: vec![Stream::new(3, target, Demand::Closed, Work::Command(parameters))],
        processors: Vec::new(),
        warmup: Span::default(),
        length: Span::from_seconds(1),
    }
}

fn done(job: &LoadJob) -> Result<Gathered, String> {
    let stop = Stop::new().unwrap();
    Gathered::of(|start, events| run_job(job, &stop, start, events).map_err(|failure| failure.to_string()))
}

fn error(script: &str, pattern: impl Fn(&mut CommandParameters)) -> String {
    done(&job(shell(script, pattern))).err().unwrap_or_else(|| panic!("{script}: no error"))
}

#[test]
fn a_rate_of_lines_becomes_seconds_and_a_command_that_never_ends_is_ended_with_its_children() {
    let script = "sleep 1000 & while :; do sleep 0.1; echo tps: 500; done";
    let gathered = done(&job(shell(script, rate))).unwrap();
    let total = &gathered.totals[0];
    assert_eq!(
        (total.id, total.counts.completed, total.completed_in_time, total.seconds),
        (3, 500, 500, 1.0)
    );
    assert_eq!(gathered.seconds.len(), 1);
    assert!(gathered.outputs[&3].starts_with("tps: 500\n"));
}

#[test]
fn a_command_without_a_thread_ends_the_others_and_the_limit_is_named() {
    let mut job = job(shell("while :; do sleep 0.1; echo tps: 500; done", rate));
    job.length = Span::from_seconds(40);
    job.streams.push(job.streams[0].clone());
    let (began, stop) = (Instant::now(), Stop::new().unwrap());
    let ran = Gathered::of(|start, events| run_on(&only(1), &job, &stop, start, events));
    let message = ran.map(drop).unwrap_err().to_string();
    assert!(message.starts_with("a thread that follows a command cannot be started: "), "{message}");
    assert!(CommandError::NoThread(std::io::ErrorKind::OutOfMemory.into()).remedy().contains("`pids.max`"));
    assert!(stop.is_asked() && began.elapsed() < Duration::from_secs(20), "the other one ran on");
}

#[test]
fn a_figure_is_reported_with_its_unit() {
    let gathered = done(&job(shell("echo score 1; echo score 41.5; echo end", figure))).unwrap();
    let wanted = CommandFigure { value: 41.5, unit: "points".to_owned(), better: Better::Higher };
    assert_eq!(gathered.details[&3], Details::Command(wanted));
    assert_eq!(gathered.totals[0].counts.completed, 1);
}

#[test]
fn every_command_that_gives_no_figure_is_named_with_its_last_lines() {
    let absent = CommandParameters { run: vec!["no-such-tool".to_owned()], ..CommandParameters::default() };
    let mut absent = absent;
    rate(&mut absent);
    assert_eq!(done(&job(absent)).err().unwrap(), "there is no program `no-such-tool`");
    assert_eq!(error("echo no disk >&2; exit 3", rate), "`/bin/sh` ended with exit status: 3: no disk");
    assert_eq!(error("echo one; exit 3", figure), "`/bin/sh` ended with exit status: 3: one");
    let silent = |parameters: &mut CommandParameters| {
        rate(parameters);
        parameters.silence = Some(Span::from_milliseconds(200));
    };
    assert!(error("exec sleep 1000", silent).starts_with("`/bin/sh` printed nothing for 0."));
    let unmatched = error("echo hello; exec sleep 1000", silent);
    assert!(
        unmatched.contains("matched `tps: ([0-9.]+)`") && unmatched.ends_with("last lines: hello"),
        "{unmatched}"
    );
    assert!(error("printf '\\033[2Jx\\n'", figure).ends_with("last lines: \\u{1b}[2Jx"));
    // A busy machine reads so much in many seconds.
    let mut flood = job(shell("exec cat /dev/zero", |parameters| {
        rate(parameters);
        parameters.silence = Some(Span::from_seconds(300));
    }));
    flood.length = Span::from_seconds(300);
    assert!(done(&flood).err().unwrap().contains("printed more than 16777216 bytes"));
    assert!(error("echo tps: 1", rate).contains("ended after 0."));
    assert!(
        error("echo tps: 1.2.3; sleep 1", |parameters| {
            rate(parameters);
        })
        .contains("\"1.2.3\"")
    );
}

#[test]
fn a_figure_that_is_not_there_at_the_end_is_named() {
    let endless = error("exec sleep 1000", figure);
    assert!(endless.contains("had not ended 6."), "{endless}");
}

#[test]
fn a_program_runs_on_the_processors_of_its_load_and_without_such_on_all() {
    let all = rustix::thread::sched_getaffinity(None).unwrap();
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|id| all.is_set(*id)).unwrap();
    if all.count() == 1 {
        return println!("skipped: this needs two processors");
    }
    let allowed = |processors: Vec<u32>| {
        let script = "grep Cpus_allowed_list /proc/self/status; echo score 1";
        let gathered = done(&LoadJob { processors, ..job(shell(script, figure)) }).unwrap();
        gathered.outputs[&3].lines().next().unwrap().split_whitespace().nth(1).unwrap().to_owned()
    };
    let own = allowed(Vec::new());
    assert_eq!(own.split([',', '-']).next_back().unwrap(), last.to_string());
    assert_eq!(allowed(vec![last as u32]), last.to_string());
}

#[test]
fn words_are_filled_and_files_are_there_and_gone_afterwards() {
    let mut parameters = CommandParameters {
        run: ["bench.sh", "{address}:{port}", "{seconds}", "{total_seconds}"].map(str::to_owned).to_vec(),
        ..CommandParameters::default()
    };
    figure(&mut parameters);
    let mut job = job(parameters);
    let script = b"#!/bin/sh\necho $* $(pwd)\necho score 7\n".to_vec();
    job.streams[0].files = vec![BroughtFile { name: "bench.sh".to_owned(), bytes: script }];
    let gathered = done(&job).unwrap();
    let first = gathered.outputs[&3].lines().next().unwrap().to_owned();
    let folder = first.strip_prefix("10.77.1.5:80 1 1 ").unwrap();
    assert!(!Path::new(folder).exists(), "{folder}");
}

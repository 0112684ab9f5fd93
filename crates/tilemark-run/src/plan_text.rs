//! A plan as a person reads it: what would be done, with minutes, memory, disk and what needs root.

use tilemark_plan::{
    expect::time_of_database_templates,
    plan::{Plan, Point},
};
use tilemark_units::Span;

/// The whole text.
pub fn text(plan: &Plan) -> String {
    let expected = &plan.expected;
    let awake = if plan.kept_awake().is_empty() { "" } else { ", kept awake" };
    let mut lines = vec![
        format!("{}: {}", plan.scenario.name, plan.scenario.about.trim()),
        String::new(),
        format!("Time      {}", time(plan)),
        format!(
            "Guests    up to {}, with {} of memory and {} of disk",
            expected.guests,
            expected.memory.rounded(),
            expected.disk.rounded()
        ),
        format!("Load on   {}{awake}", threads(&plan.processors.load)),
        format!("Guests on {}", threads(&plan.processors.guests)),
        format!(
            "Gate      p99 ≤ {}, errors ≤ {}, achieved ≥ {}",
            plan.scenario.gate.p99, plan.scenario.gate.errors, plan.scenario.gate.achieved
        ),
        format!(
            "Root      needed to run it: namespaces, mounts, network devices; {} of the host is changed",
            if awake.is_empty() { "no setting" } else { "no other setting" }
        ),
        String::new(),
        format!(
            "{} passes over these points, in random order within each repeat (seed {}):",
            plan.passes.len(),
            plan.seed
        ),
    ];
    lines.extend(plan.points.iter().map(point));
    if let Some(search) = plan.search {
        lines.push(format!(
            "then a search: doubles from {} until the gate breaks, at most {}, bisects, and confirms both sides with {} repeats",
            search.from, search.limit, plan.points[0].measure.repeats
        ));
    }
    lines.join("\n")
}

/// How long it takes, with what may come on top.
pub(crate) fn time(plan: &Plan) -> String {
    let mut text = format!("about {}", plan.expected.time.rounded());
    let templates = time_of_database_templates(&plan.points);
    if !templates.is_zero() {
        let once = Span::from_milliseconds(templates.as_millis() as u64);
        text += &format!(
            ", and about {} more where a template of its databases must be made first",
            once.rounded()
        );
    }
    text
}

fn threads(ids: &[u32]) -> String {
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    let word = if ids.len() == 1 { "thread" } else { "threads" };
    format!("{word} {}", ids.join(", "))
}

fn point(point: &Point) -> String {
    let mut words = vec![format!(
        "  {:>4} tiles, {:>4} guests on {}",
        point.tiles,
        point.guests.len(),
        point.backend.name()
    )];
    words.extend(point.side.map(|side| format!("side {side:?}")));
    words.extend(point.vary.iter().map(|(name, value)| format!("{name} {value}")));
    words.push(format!("{} × ({} + {})", point.measure.repeats, point.measure.warmup, point.measure.length));
    words.join(", ")
}

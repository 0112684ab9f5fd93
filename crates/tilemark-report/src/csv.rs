//! One line for each load of each point, every figure in full, for spreadsheets and programs.

use crate::{
    Report,
    view::{Outcome, View, load_p99},
};
use tilemark_plan::plan::Hardware;
use tilemark_record::result::{LoadResult, PointResult};

const HEAD: &str = "run,began,host,tags,point,tiles,guests,vcpus_per_thread,backend,side,vary,load,headline,measured,loop,\
repeats_kept,repeats_voided,trusted,holds,limit,offered_per_s,achieved_fraction,throughput,throughput_unit,\
throughput_low,throughput_high,latency_n,mean_ms,p50_ms,p90_ms,p99_ms,p999_ms,max_ms,p99_repeats_ms,p99_low_ms,\
p99_high_ms,errors_fraction,jain,least_served,least_of_mean,most_served,most_of_mean,send_lateness_p99_us,\
guest_work,guest_overhead,load_processor,tilemark,other,steal,idle,pss_mib_per_guest,power_w,repeats_within,outcome\n";

/// The figures of every load at every point as CSV (RFC 4180, `\n` between lines). An empty field was not
/// measured; `trusted` is `false` where the report strikes figures through; `outcome` is `holds`, `undecided`, `breaks`, or
/// `cannot tell` where it was not judged.
pub fn csv(report: &Report) -> String {
    csv_with_tags(report, &[])
}

/// The same with the tags of the run, which are kept beside the record.
pub fn csv_with_tags(report: &Report, tags: &[String]) -> String {
    let result = &report.result;
    let of_run = [
        text(&result.run),
        text(&result.provenance.began),
        text(&result.provenance.host),
        text(&tags.join(" ")),
    ];
    let of_run = of_run.join(",");
    let view = View::of(report);
    let mut out = HEAD.to_owned();
    for point in &report.result.points {
        for load in &point.loads {
            let cells = cells(&view, point, load);
            out.push_str(&of_run);
            out.push(',');
            out.push_str(&cells.join(","));
            out.push('\n');
        }
    }
    out
}

/// Where the host itself is emulated, every line says so.
fn backend(view: &View, point: &PointResult) -> String {
    let name = point.backend.name();
    match view.report.plan.host.hardware {
        Hardware::Real | Hardware::Virtual => name.to_owned(),
        Hardware::Emulated => format!("{name} on an emulated host"),
    }
}

fn cells(view: &View, point: &PointResult, load: &LoadResult) -> Vec<String> {
    let headline = load.name == view.headline_of(point);
    let vary: Vec<String> = point.vary.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let throughput = load.throughput.as_ref();
    let figure = throughput.map(|throughput| throughput.figure);
    let latency = load.latency_ms;
    let fair = load.fairness.as_ref();
    let processor = point.processor;
    vec![
        point.index.to_string(),
        point.tiles.to_string(),
        point.guests.to_string(),
        point.vcpus_per_thread.to_string(),
        backend(view, point),
        point.side.map(|side| crate::view::side_words(side).to_ascii_lowercase()).unwrap_or_default(),
        text(&vary.join("; ")),
        text(&load.name),
        headline.to_string(),
        word(&load.measured),
        word(&load.loop_kind),
        point.repeats_kept.to_string(),
        point.repeats_voided.len().to_string(),
        (!view.struck(point)).to_string(),
        point.holds.map(|holds| holds.to_string()).unwrap_or_default(),
        point.limit.map(|limit| word(&limit)).unwrap_or_default(),
        number(load.offered),
        number(load.achieved_fraction),
        number(figure.map(|figure| figure.value)),
        text(throughput.map_or("", |throughput| &throughput.unit)),
        number(figure.and_then(|figure| figure.low)),
        number(figure.and_then(|figure| figure.high)),
        latency.n.to_string(),
        number(latency.mean),
        number(latency.p50),
        number(latency.p90),
        number(load_p99(load).map(|figure| figure.value)),
        number(latency.p999),
        number(latency.max),
        number(load.p99_ms.map(|figure| figure.value)),
        number(load.p99_ms.and_then(|figure| figure.low)),
        number(load.p99_ms.and_then(|figure| figure.high)),
        number(load.errors),
        number(fair.map(|fair| fair.jain)),
        text(fair.map_or("", |fair| &fair.least_served.guest)),
        number(fair.map(|fair| fair.least_served.of_mean)),
        text(fair.map_or("", |fair| &fair.most_served.guest)),
        number(fair.map(|fair| fair.most_served.of_mean)),
        number(load.send_lateness_us.p99),
        number(processor.map(|parts| parts.guest_work)),
        number(processor.map(|parts| parts.guest_overhead)),
        number(processor.map(|parts| parts.load)),
        number(processor.map(|parts| parts.tilemark)),
        number(processor.map(|parts| parts.other)),
        number(processor.map(|parts| parts.steal)),
        number(processor.map(|parts| parts.idle)),
        number(point.pss_mib_per_guest),
        number(point.power_w),
        point.repeats_within.map(|within| within.to_string()).unwrap_or_default(),
        Outcome::of(view, point).word().to_owned(),
    ]
}

/// The name that the record's files use.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map(|value| value.to_string()).unwrap_or_default()
}

/// Text quoted where it must be. A first sign that makes a spreadsheet compute gets an apostrophe before it.
fn text(text: &str) -> String {
    let armed = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if armed { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_is_neither_a_formula_nor_a_second_field() {
        assert_eq!(text("=cmd|' /C calc'!A0"), "'=cmd|' /C calc'!A0");
        assert_eq!(text("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(text("tile-001-web"), "tile-001-web");
    }
}

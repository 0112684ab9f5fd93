//! A broker's figures by message size: throughput in messages and in bytes, latency with its deviation, and what the
//! 2009 paper published beside them.

use super::groups::{View, backend_words, side_words};
use super::rows::load_p99;
use super::section::{
    Cell, Chart, Column, Part, Row, Section, Series, SeriesPoint, Stroke, Table, given, measured,
};
use crate::number::{counted, percent, three, whole};
use crate::published::{self, MessagingPaper, PublishedLatency, PublishedThroughput};
use std::collections::BTreeMap;
use tilemark_plan::{
    plan::{Backend, Point, SideName},
    workload::{MessagingMeasure, MessagingParameters, Work},
};
use tilemark_record::{
    result::PointResult,
    summary::{LoadFigures, RepeatSummary},
};
use tilemark_units::median;

const THROUGHPUT_ABOUT: &str = "A transfer is a message in or a message out; \u{b1} is half the 95 % interval of the mean. Published: \
    two guests. Median of sums: we add up all guests in each repeat and take the median of the repeats. The paper uses nine repeats.";
const LATENCY_ABOUT: &str = "Latency counts from the intended time of sending to receipt by a consumer, at the load's rate. Median \
    run: the repeat with the median standard deviation of its one-second means. The paper uses nine repeats, and does not say what its \
    standard deviation is of. Its tool printed one average a second, so we show that of our one-second means beside it.";

/// What was measured of a broker, or was published, by size: columns of the table and curves of the chart.
struct Line {
    /// Such as `2 tiles`.
    name: String,
    /// Of the table.
    columns: Vec<Column>,
    /// Of the chart, without their points.
    curves: Vec<Series>,
    points: Vec<SizePoint>,
}

/// The ends of a bar.
type Ends = (f64, f64);

/// What a line has at one size.
struct SizePoint {
    /// Bytes of a message.
    size: u64,
    /// One for each column.
    cells: Vec<Option<String>>,
    /// One for each curve: its value, and the ends of the bar through it.
    values: Vec<(Option<f64>, Option<Ends>)>,
    /// What its curves show on hover, below its name.
    hover: Vec<String>,
    /// Not to be trusted.
    struck: bool,
}

/// A broker's load at a point.
struct Loaded<'a> {
    result: &'a PointResult,
    name: &'a str,
    parameters: &'a MessagingParameters,
}

/// Lines are in the order of backend, side, tiles and load, and then of the plan.
type Key = (Backend, Option<SideName>, u32, String, usize);

/// What the report shows of a broker; nothing where none was loaded, or where two sides were compared.
pub(crate) fn messaging(view: &View) -> Option<Section> {
    let loaded: Vec<Loaded> = view.points().flat_map(|(_, point)| of_point(view, point)).collect();
    if loaded.is_empty() || view.report.result.comparison.is_some() {
        return None;
    }
    let paper = published::messaging();
    let mut sizes: Vec<u64> =
        loaded.iter().map(|one| one.parameters.size.get()).chain(paper.sizes()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut parts = vec![Part::Text(differs(view, &paper))];
    let mut charts = Vec::new();
    let throughput = lines(view, &loaded, MessagingMeasure::Throughput, throughput_line, throughput_point);
    if !throughput.is_empty() {
        let lines = [throughput, published_throughput(&paper)];
        parts.push(Part::Table(table("Throughput", &lines, &sizes)));
        parts.push(Part::Text(THROUGHPUT_ABOUT.to_owned()));
        charts.push(Chart {
            id: "size-throughput".into(),
            title: "Throughput by message size".into(),
            unit: "left: messages in and out per second; right: MB/s of payload".into(),
            about: "Throughput in messages and in bytes by message size, and the published curves; the same figures are in the table below".into(),
            across: ACROSS,
            places: places(&sizes),
            right: Some("MB/s"),
            series: series(lines, &sizes),
            ..Chart::default()
        });
    }
    let latency = lines(view, &loaded, MessagingMeasure::Latency, latency_line, latency_point);
    if !latency.is_empty() {
        let lines = [latency, published_latency(&paper)];
        parts.push(Part::Table(table("Latency", &lines, &sizes)));
        parts.push(Part::Text(LATENCY_ABOUT.to_owned()));
        charts.push(Chart {
            id: "size-latency".into(),
            title: "Latency by message size".into(),
            unit: "milliseconds; bars: standard deviation of the seconds' means".into(),
            about: "Mean and 99th percentile of latency by message size, and the published means; the same figures are in the table below".into(),
            across: ACROSS,
            places: places(&sizes),
            right: None,
            series: series(lines, &sizes),
            ..Chart::default()
        });
    }
    Some(Section {
        charts,
        ..Section::new("messaging", "Messages by size, beside what was published", parts)
    })
}

/// The lines of one measure.
fn lines(
    view: &View,
    loaded: &[Loaded],
    measure: MessagingMeasure,
    empty: fn(String) -> Line,
    point: fn(&View, &Loaded) -> Option<SizePoint>,
) -> Vec<Line> {
    let mut lines: BTreeMap<Key, Line> = BTreeMap::new();
    let mut of_measure: Vec<&Loaded> =
        loaded.iter().filter(|one| one.parameters.measure == measure).collect();
    of_measure.sort_by_key(|one| one.parameters.size.get());
    for one in of_measure {
        let others = others(view, one);
        let order = loaded.iter().position(|before| self::others(view, before) == others).unwrap_or(0);
        let result = one.result;
        let key = (result.backend, result.side, result.tiles, one.name.to_owned(), order);
        let line = lines.entry(key).or_insert_with(|| empty(name(view, one, &others)));
        line.points.extend(point(view, one));
    }
    lines.into_values().collect()
}

/// A row a size: what was measured, then what was published.
fn table(title: &'static str, lines: &[Vec<Line>; 2], sizes: &[u64]) -> Table {
    let row = |size: &u64| {
        let cells = lines.iter().flatten().flat_map(|line| {
            let point = line.points.iter().find(|point| point.size == *size);
            (0..line.columns.len()).map(move |place| Cell {
                struck: point.is_some_and(|point| point.struck),
                ..Cell::figure(point.and_then(|point| point.cells[place].clone()))
            })
        });
        Row::new(whole(*size), cells.collect())
    };
    let size = measured("Size").unit("bytes");
    let columns = lines.iter().flatten().flat_map(|line| line.columns.iter().cloned());
    let columns = [size].into_iter().chain(columns).collect();
    Table { title, ..Table::new(columns, sizes.iter().map(row).collect()) }
}

const ACROSS: &str = "bytes of a message";

fn places(sizes: &[u64]) -> Vec<String> {
    let place = |size: &u64| match size {
        kibi if *kibi >= 1024 && kibi.is_multiple_of(1024) => format!("{}K", kibi / 1024),
        size => size.to_string(),
    };
    sizes.iter().map(place).collect()
}

fn series(lines: [Vec<Line>; 2], sizes: &[u64]) -> Vec<Series> {
    let lines = lines.into_iter().flat_map(|lines| lines.into_iter().enumerate());
    let of_line = lines.flat_map(|(colour, line)| {
        let Line { name, curves, points, .. } = line;
        curves.into_iter().enumerate().map(move |(curve, series)| {
            let points = points.iter().filter_map(|point| {
                let (value, bar) = point.values[curve];
                let mut lines = vec![format!("{name}, {} B", three(point.size as f64))];
                lines.extend(point.hover.iter().cloned());
                lines.extend(point.struck.then(|| "not trusted".to_owned()));
                let place = sizes.iter().position(|size| *size == point.size)?;
                Some(SeriesPoint { place, value: value?, bar, lines, struck: point.struck })
            });
            Series { colour, points: points.collect(), ..series }
        })
    });
    of_line.collect()
}

/// What varies beside what a line shows itself: its load's sizes, and whether throughput or latency was measured.
fn others(view: &View, one: &Loaded) -> Vec<String> {
    let shown = ["size", "measure"].map(|setting| format!("load.{}.messaging.{setting}", one.name));
    let is_shown =
        |name: &str| view.report.plan.scenario.vary.get(name).is_some_and(|vary| shown.contains(&vary.key));
    let others = one.result.vary.iter().filter(|(name, _)| !is_shown(name));
    others.map(|(name, value)| format!("{name} {value}")).collect()
}

fn name(view: &View, one: &Loaded, others: &[String]) -> String {
    let mut name = counted(one.result.tiles.into(), "tile");
    if view.groups.iter().any(|group| group.backend != one.result.backend) {
        name = format!("{name}, {}", backend_words(one.result.backend));
    }
    if let Some(side) = one.result.side {
        name = format!("{name}, {}", side_words(side));
    }
    others.iter().fold(name, |name, other| format!("{name}, {other}"))
}

fn of_point<'a>(view: &View<'a>, point: &'a PointResult) -> Vec<Loaded<'a>> {
    let plan: Option<&Point> = view.report.plan.points.iter().find(|plan| plan.index == point.index);
    let first_tile = plan.into_iter().flat_map(|plan| &plan.loads).filter(|load| load.tile == 1);
    first_tile
        .filter_map(|load| match &load.work {
            Work::Messaging(parameters) => Some(Loaded { result: point, name: &load.name, parameters }),
            _ => None,
        })
        .collect()
}

/// The load's figures in each repeat that counts.
fn kept<'a>(view: &View<'a>, one: &Loaded<'a>) -> Vec<(&'a RepeatSummary, &'a LoadFigures)> {
    view.kept_repeats(one.result)
        .filter_map(|repeat| Some((repeat, repeat.loads.iter().find(|load| load.name == one.name)?)))
        .collect()
}

fn throughput_line(name: String) -> Line {
    Line {
        columns: vec![
            measured(name.clone()).unit("transfers/s"),
            measured("MB/s").unit("in + out").short_unit(""),
            measured("Median of sums").unit("transfers/s").dispensable(4),
        ],
        curves: vec![
            Series::new(&name, &name, Stroke::Main),
            Series::new(&format!("{name}, MB/s"), "MB/s", Stroke::Dashed).at_right(),
        ],
        name,
        points: Vec::new(),
    }
}

fn throughput_point(view: &View, one: &Loaded) -> Option<SizePoint> {
    let sums: Vec<f64> = kept(view, one)
        .iter()
        .map(|(_, load)| load.offered as f64 / load.seconds + load.rate())
        .filter(|rate| rate.is_finite())
        .collect();
    let transfers = sums.iter().sum::<f64>() / sums.len() as f64;
    let repeats = counted(sums.len() as u64, "repeat");
    // As the paper takes it: all guests summed, the median of the repeats.
    let median_of_sums = three(median(sums)?);
    let result = one.result.loads.iter().find(|load| load.name == one.name);
    let figure = result.and_then(|load| load.throughput.as_ref()).map(|throughput| throughput.figure);
    let size = one.parameters.size.get();
    let megabytes = transfers * size as f64 / 1e6;
    // The interval of messages out, at the scale of messages in and out.
    let interval = figure.and_then(|figure| {
        Some((figure.low? * transfers / figure.value, figure.high? * transfers / figure.value))
    });
    let half = interval.map(|(low, high)| format!(" \u{b1} {}", percent((high - low) / 2.0 / transfers)));
    let ends = interval.map(|(low, high)| format!(" [{}, {}]", three(low), three(high)));
    Some(SizePoint {
        size,
        cells: vec![
            Some(three(transfers) + &half.unwrap_or_default()),
            Some(three(megabytes)),
            Some(median_of_sums.clone()),
        ],
        values: vec![(Some(transfers), interval), (Some(megabytes), None)],
        hover: vec![
            format!("{} transfers/s{}", three(transfers), ends.unwrap_or_default()),
            format!("{} MB/s in and out", three(megabytes)),
            format!("median of sums {median_of_sums}/s, {repeats}"),
        ],
        struck: view.struck(one.result),
    })
}

fn latency_line(name: String) -> Line {
    let mean = format!("{name}, mean");
    Line {
        columns: vec![
            measured(name.clone()).unit("mean, ms"),
            measured("Deviation").unit("of messages, ms").dispensable(4),
            measured("p99").unit("ms"),
            measured("Median run").unit("mean \u{b1} of seconds, ms"),
        ],
        curves: vec![
            Series::new(&mean, &mean, Stroke::Main),
            Series::new(&format!("{name}, p99"), "p99", Stroke::Dotted),
        ],
        name,
        points: Vec::new(),
    }
}

fn latency_point(view: &View, one: &Loaded) -> Option<SizePoint> {
    let result = one.result.loads.iter().find(|load| load.name == one.name)?;
    let mean = result.latency_ms.mean?;
    let deviation = result.latency_ms.deviation.map(three);
    let p99 = load_p99(result).map(|figure| figure.value);
    let run = median_run(&kept(view, one));
    let run_words = run.map(|(_, mean, deviation)| deviating(mean, deviation));
    let bar = run.map(|(.., deviation)| (mean - deviation, mean + deviation)).filter(|(low, _)| *low > 0.0);
    let words = |text: &Option<String>| Cell::figure(text.clone()).text;
    let mut hover = vec![
        format!("mean {} ms, deviation of messages {} ms", three(mean), words(&deviation)),
        format!("p99 {} ms", words(&p99.map(three))),
    ];
    hover.extend(
        run.zip(run_words.as_ref())
            .map(|((repeat, ..), words)| format!("median run (repeat {repeat}): {words} ms of seconds")),
    );
    Some(SizePoint {
        size: one.parameters.size.get(),
        cells: vec![Some(three(mean)), deviation, p99.map(three), run_words],
        values: vec![(Some(mean), bar), (p99, None)],
        hover,
        struck: view.struck(one.result),
    })
}

/// As the paper takes it, the repeat in the middle by the standard deviation of its seconds' means: which, its mean, that deviation. Of
/// an even count the lower one, since it must be a run that was.
fn median_run(kept: &[(&RepeatSummary, &LoadFigures)]) -> Option<(u32, f64, f64)> {
    let run = |(repeat, load): &(&RepeatSummary, &LoadFigures)| {
        Some((repeat.repeat, load.latency_ms.mean?, load.latency_ms.deviation_of_seconds?))
    };
    let mut runs: Vec<(u32, f64, f64)> = kept.iter().filter_map(run).collect();
    runs.sort_by(|(.., one), (.., other)| one.total_cmp(other));
    runs.get(runs.len().saturating_sub(1) / 2).copied()
}

fn deviating(mean: f64, deviation: f64) -> String {
    format!("{} \u{b1} {}", three(mean), three(deviation))
}

const OTHER_HARDWARE: &str = "other hardware, another broker: see below";

fn published_throughput(paper: &MessagingPaper) -> Vec<Line> {
    let line = |legend: &str, how: &str, columns, figures: fn(&PublishedThroughput) -> (f64, f64)| Line {
        name: format!("published 2009, two guests, {how}"),
        columns,
        curves: vec![
            Series::new(legend, legend, Stroke::Published),
            Series::new(&format!("{legend}, MB/s"), "", Stroke::PublishedDashed).at_right(),
        ],
        points: paper
            .throughput
            .iter()
            .map(|point| {
                let (transfers, megabytes) = figures(point);
                SizePoint {
                    size: point.size,
                    cells: vec![Some(three(transfers)), Some(three(megabytes))],
                    values: vec![(Some(transfers), None), (Some(megabytes), None)],
                    hover: vec![
                        format!("{} transfers/s", three(transfers)),
                        format!("{} MB/s", three(megabytes)),
                        OTHER_HARDWARE.to_owned(),
                    ],
                    struck: false,
                }
            })
            .collect(),
    };
    let megabytes = || given("MB/s").unit("from MiB/s");
    let bridged = given("Published").unit("bridged, transfers/s").short_unit("bridged").dispensable(1);
    let passed = given("Published").unit("passed through").dispensable(3);
    vec![
        line("2009: two guests, bridged", "bridged", vec![bridged, megabytes().dispensable(2)], |point| {
            (point.bridged, point.bridged_megabytes)
        }),
        line(
            "passed through",
            "network card passed through",
            vec![passed, megabytes().dispensable(3)],
            |point| (point.passthrough, point.passthrough_megabytes),
        ),
    ]
}

fn published_latency(paper: &MessagingPaper) -> Vec<Line> {
    let line = |legend: &str, guests: &str, dispensable, figures: fn(&PublishedLatency) -> (f64, f64)| Line {
        name: format!("published 2009, {guests}, network card passed through"),
        columns: vec![
            given(format!("Published, {guests}")).unit("mean \u{b1} deviation, ms").dispensable(dispensable),
        ],
        curves: vec![Series::new(legend, legend, Stroke::Published)],
        points: paper
            .latency
            .iter()
            .map(|point| {
                let (mean, deviation) = figures(point);
                let words = deviating(mean, deviation);
                SizePoint {
                    size: point.size,
                    values: vec![(Some(mean), None)],
                    hover: vec![format!("mean {words} ms"), OTHER_HARDWARE.to_owned()],
                    cells: vec![Some(words)],
                    struck: false,
                }
            })
            .collect(),
    };
    vec![
        line("2009: one guest, passed through", "one guest", 1, |point| {
            (point.one_mean, point.one_deviation)
        }),
        line("two guests", "two guests", 2, |point| (point.two_mean, point.two_deviation)),
    ]
}

/// Said plainly: no curve of the paper is a mark to reach.
fn differs(view: &View, paper: &MessagingPaper) -> String {
    let host = &view.report.result.provenance;
    format!(
        "Published by {} in {}: {}; each guest {}; the load on a second machine over 10 GbE; Apache Qpid's C++ broker. Here: \
         {}, {} threads, {}; {}; {}. The curves are side by side \
         to show their shape: hardware, broker and way of loading differ, so their distance says nothing about \
         virtualization.",
        paper.publisher,
        paper.year,
        paper.host,
        paper.guest,
        host.processor,
        host.threads,
        view.backends(),
        load_words(view),
        brokers(view),
    )
}

/// Where the load ran. A client machine may be the measured host itself.
fn load_words(view: &View) -> &'static str {
    let mut clients = view.report.repeats.iter().flat_map(|repeat| &repeat.clients);
    match clients.any(|client| !client.same_machine) {
        true => "the load on client machines, with the network between",
        false => "the load on the same machine, no network card between",
    }
}

fn brokers(view: &View) -> String {
    let of_scenario = view.report.plan.scenario.guest.iter();
    let mut names: Vec<&str> = of_scenario
        .filter(|guest| guest.serves(tilemark_plan::scenario::Role::Broker))
        .map(|guest| match guest.broker {
            tilemark_plan::scenario::BrokerService::Reference => "Tilemark's reference broker",
            tilemark_plan::scenario::BrokerService::Rabbitmq => "RabbitMQ",
            tilemark_plan::scenario::BrokerService::QpidBrokerJ => "Apache Qpid Broker-J",
        })
        .collect();
    names.dedup();
    names.join(", ")
}

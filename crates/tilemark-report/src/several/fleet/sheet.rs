//! What the page of a fleet shows.

use super::super::{Finding, Sheet, capacity};
use super::{
    End, FleetGroup, FleetHost, FleetMeasure, FleetOutcome, FleetVerdict, HostDifference, UnusualFact,
};
use crate::number::{counted, three};
use crate::view::{
    Cell, Chart, Chip, Level, Part, Row, RowGroup, Section, Series, SeriesPoint, Stroke, Table, given,
    group_named, limit_word, measured, words,
};
use std::collections::{BTreeMap, BTreeSet};
use tilemark_record::result::Figure;

/// Charts of a page at most: of the groups with the most hosts.
const CHARTS_MAX: usize = 12;
/// Names that a cell has room for.
const NAMES_SHOWN: usize = 6;
/// Unusual facts that a host's row has room for; the section on facts has them all.
const FACTS_SHOWN: usize = 2;
/// Groups beside each other in one table of facts.
const GROUPS_BESIDE: usize = 6;

/// What is shown.
pub(in super::super) fn sheet(fleet: &FleetVerdict) -> Sheet {
    let scenario = fleet.scenario.as_deref().unwrap_or("nothing measured");
    let mut findings: Vec<Finding> = fleet.paragraphs.iter().map(|text| paragraph(text)).collect();
    if let Some(first) = findings.first_mut() {
        first.chip = chip(fleet);
    }
    if let Some(last) = findings.last_mut() {
        last.reasons.clone_from(&fleet.reasons);
    }
    findings.extend(fleet.groups.iter().filter(|_| fleet.groups.len() > 1).take(GROUPS_BESIDE).map(of_group));
    let mut sections = vec![Section::new("hosts", "Hosts", hosts_parts(fleet))];
    if !fleet.groups.is_empty() {
        sections.push(Section::new("groups", "Groups of equal hosts", groups_parts(fleet)));
    }
    if fleet.groups.len() > 1 {
        sections.push(Section::new("apart", "What sets the groups apart", vec![Part::Table(apart(fleet))]));
    }
    let facts = unusual_facts(fleet);
    if facts.rows().next().is_some() {
        let about = "Facts in which some hosts are not like most of their group. A fact that only hosts which differ have is worth a \
                     look; it need not be the cause.";
        let parts = vec![Part::Text(about.to_owned()), Part::Table(facts)];
        sections.push(Section::new("facts", "What differs in their facts", parts));
    }
    let problems = problems(fleet);
    if problems.rows().next().is_some() {
        sections.push(Section::new(
            "problems",
            "Attempts and files that were not used",
            vec![Part::Table(problems)],
        ));
    }
    Sheet {
        title: format!("{scenario}: fleet {} of {}", fleet.fleet, counted(fleet.asked as u64, "host")),
        lead: Vec::new(),
        findings,
        forest: Vec::new(),
        charts: charts(fleet),
        sections,
    }
}

fn paragraph(text: &str) -> Finding {
    Finding { chip: None, head: String::new(), text: text.to_owned(), reasons: Vec::new() }
}

/// Trusted where the verdict is about all hosts that were asked. A host that differs does so whoever else is missing or cannot be compared:
/// then there is none. One that differed once is a suspect, and whether it is out of line is not known yet.
fn chip(fleet: &FleetVerdict) -> Option<Chip> {
    match fleet.verdict {
        FleetOutcome::Alike => Some(Chip::Trusted),
        FleetOutcome::Differs if !fleet.confirmed => Some(Chip::CannotTell),
        FleetOutcome::Differs => {
            let is_compared = |host: &FleetHost| host.outcome != FleetOutcome::NotCompared;
            let are_all = fleet.missing.is_empty() && fleet.hosts.iter().all(is_compared);
            Some(Chip::Trusted).filter(|_| are_all)
        }
        FleetOutcome::CannotTell | FleetOutcome::NotCompared => Some(Chip::CannotTell),
    }
}

fn of_group(group: &FleetGroup) -> Finding {
    let compared = group.step.as_ref().map(|step| format!(", compared {step}")).unwrap_or_default();
    let text = match group.outcome {
        FleetOutcome::Differs => format!("Differs: {}.", names(&group.named)),
        FleetOutcome::Alike => "All of its hosts are alike.".to_owned(),
        FleetOutcome::CannotTell | FleetOutcome::NotCompared => {
            "It is not known whether they are alike.".to_owned()
        }
    };
    let head = format!("{}: {}{compared}", group.name, counted(group.hosts.len() as u64, "host"));
    Finding { chip: None, head, text, reasons: group.why.iter().cloned().collect() }
}

/// `h1, h2 and 3 more`
pub(super) fn names(all: &[impl AsRef<str>]) -> String {
    let shown: Vec<&str> = all.iter().take(NAMES_SHOWN).map(AsRef::as_ref).collect();
    match all.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The names of all measures, in order.
fn measure_names(fleet: &FleetVerdict) -> Vec<&FleetMeasure> {
    let mut found: Vec<&FleetMeasure> = Vec::new();
    for measure in all_measures(fleet) {
        if found.iter().all(|known| known.name != measure.name) {
            found.push(measure);
        }
    }
    found
}

/// What figures of a measure, or of all, are beside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Median,
    OtherHost,
    /// In a group of two hosts with the measure the other one, else the median.
    Either,
}

impl Beside {
    fn of<'m>(measures: impl Iterator<Item = &'m FleetMeasure>) -> Self {
        let (two, more): (Vec<_>, Vec<_>) =
            measures.filter(|measure| measure.hosts > 0).partition(|measure| measure.hosts == 2);
        match (two.is_empty(), more.is_empty()) {
            (true, _) => Self::Median,
            (false, true) => Self::OtherHost,
            (false, false) => Self::Either,
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Median => "% from the median",
            Self::OtherHost => "% from the other host",
            Self::Either => "% from the median, of two hosts from the other",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Median => "the median of the host's group",
            Self::OtherHost => "the other host of its group",
            Self::Either => "the median of the host's group, or the other host where only two are compared",
        }
    }
}

fn all_measures(fleet: &FleetVerdict) -> impl Iterator<Item = &FleetMeasure> {
    fleet.groups.iter().flat_map(|group| &group.measures)
}

fn hosts_parts(fleet: &FleetVerdict) -> Vec<Part> {
    let beside = Beside::of(all_measures(fleet)).words();
    let mut about = format!("Each figure is beside {beside}, with its 95 % interval.");
    if let Some(measure) = all_measures(fleet).next() {
        about = format!(
            "{about} A host is alike where every interval lies within \u{b1}{}\u{202f}% (of p99 \u{b1}5\u{202f}%). It differs where an \
             interval that is widened for the number of hosts lies wholly beyond that, and p after Holm\u{2019}s correction is below 0.01.",
            crate::number::limit(measure.least_change * 100.0)
        );
    }
    vec![Part::Text(about), Part::Table(hosts(fleet))]
}

fn hosts(fleet: &FleetVerdict) -> Table {
    let measures = measure_names(fleet);
    let mut columns = vec![given("Host"), words("Compared")];
    columns.extend(measures.iter().map(|measure| {
        let same = all_measures(fleet).filter(|one| one.name == measure.name);
        measured(measure.name.clone()).unit(Beside::of(same).unit())
    }));
    columns.extend([
        measured("Capacity").unit("tiles"),
        words("Ended").dispensable(1),
        words("Unusual facts, or why").dispensable(2),
        words("First bottleneck").dispensable(3),
        words("Run").dispensable(4),
    ]);
    let mut groups: Vec<RowGroup> = Vec::new();
    let mut known: Option<Option<&String>> = None;
    for host in &fleet.hosts {
        if known != Some(host.group.as_ref()) {
            known = Some(host.group.as_ref());
            groups.push(RowGroup { head: Some(group_named(&group_head(fleet, host))), rows: Vec::new() });
        }
        groups.last_mut().expect("a group was begun").rows.push(host_row(host, &measures));
    }
    Table { groups, ..Table::new(columns, Vec::new()) }
}

fn group_head(fleet: &FleetVerdict, host: &FleetHost) -> String {
    let Some(name) = &host.group else { return "Without a whole record".to_owned() };
    let group = fleet.groups.iter().find(|group| group.name == *name);
    let step = group.and_then(|group| group.step.as_ref());
    step.map_or_else(|| name.clone(), |step| format!("{name}, compared {step}"))
}

fn host_row(host: &FleetHost, measures: &[&FleetMeasure]) -> Row {
    let mut cells = vec![host.outcome.words().into()];
    cells.extend(measures.iter().map(|measure| {
        let own = host.changes.iter().find(|change| change.measure == measure.name);
        own.map_or_else(|| Cell::figure(None), difference)
    }));
    let struck = host.measured && !host.trusted;
    let tiles =
        host.capacity.as_ref().map(|capacity| capacity.words.replace(" tiles", "").replace(" tile", ""));
    let estimate =
        host.capacity.as_ref().and_then(|capacity| capacity.estimate.as_ref()).map(capacity::estimate);
    let tiles = Cell::figure(tiles).beside(estimate);
    let is_missing = tiles.is_missing();
    cells.push(Cell { struck: struck && !is_missing, ..tiles });
    let exit = host.exit_code.filter(|code| *code != 0).map(|code| format!("exit {code}"));
    cells.push(Cell::from(host.end.words()).beside(exit));
    cells.push(Cell::figure(Some(reasons(host)).filter(|reasons| !reasons.is_empty())));
    cells.push(Cell::figure(host.capacity.as_ref().map(|capacity| limit_word(capacity.limit).to_owned())));
    cells.push(Cell::figure(host.run.clone()));
    Row::new(host.name.clone(), cells)
}

/// `+8.1` with `[7.0, 9.2]` beside it.
fn difference(own: &HostDifference) -> Cell {
    of_change(&own.change)
}

/// A change in percent with its interval, in digits that can be read down a column.
pub(super) fn of_change(figure: &Figure) -> Cell {
    let interval = figure.low.zip(figure.high);
    let interval = interval.map(|(low, high)| format!("[{}, {}]", tenths(low), tenths(high)));
    Cell::from(tenths(figure.value)).beside(interval)
}

/// `+8.1`, `\u{2212}0.4`
fn tenths(part: f64) -> String {
    let text = format!("{:.1}", part.abs() * 100.0);
    match (part < 0.0, text == "0.0") {
        (_, true) => text,
        (true, _) => format!("\u{2212}{text}"),
        (false, _) => format!("+{text}"),
    }
}

/// Why a host is as it is, in the room of a cell.
fn reasons(host: &FleetHost) -> String {
    let mut all: Vec<String> = host.why.iter().cloned().collect();
    // A host with a record may have failed behind it, or its record says why it cannot be compared.
    let is_shown = !host.measured
        || matches!(host.end, End::NotRestored | End::GuestFailed)
        || (host.outcome == FleetOutcome::NotCompared && host.end != End::Trusted);
    // Why a host is not compared may be that very reason.
    let is_new = |because: &String| !because.is_empty() && !all.iter().any(|why| why.contains(because));
    let because = Some(host.because.clone()).filter(|because| is_shown && is_new(because));
    all.extend(because);
    all.extend(host.unusual.iter().take(FACTS_SHOWN).map(|fact| format!("{}: {}", fact.fact, fact.value)));
    let more = host.unusual.len().saturating_sub(FACTS_SHOWN);
    all.extend((more > 0).then(|| format!("{more} more")));
    all.join("; ")
}

fn groups_parts(fleet: &FleetVerdict) -> Vec<Part> {
    let columns = vec![
        given("Group"),
        words("Measure"),
        words("Hosts"),
        measured("Median").dispensable(2),
        measured("Between hosts").unit("standard deviation, %").short_unit("sd, %"),
        measured("Repeats").unit("standard deviation, %").short_unit("sd, %").dispensable(3),
        words("Repeats that would decide").dispensable(1),
    ];
    let row = |group: &FleetGroup| {
        let head = Cell::from(group.name.clone()).beside(group.step.clone());
        let mut lines: Vec<Vec<Cell>> = group.measures.iter().map(measure_line).collect();
        if lines.is_empty() {
            lines.push(vec![group.why.clone().unwrap_or_else(|| "nothing to compare".to_owned()).into()]);
        }
        Row { head, lines, ..Row::default() }
    };
    let spread = Table::new(columns, fleet.groups.iter().map(row).collect());
    vec![Part::Table(capacities(fleet)), Part::Table(spread)]
}

/// How many tiles each group carries.
fn capacities(fleet: &FleetVerdict) -> Table {
    let columns = vec![
        given("Group"),
        words("Hosts").dispensable(1),
        measured("Least").unit("tiles a host"),
        measured("Median").unit("tiles a host"),
        measured("Together").unit("tiles"),
        words("Of"),
    ];
    let row = |group: &FleetGroup| {
        let hosts = Cell::from(group.hosts.len().to_string());
        let Some(found) = &group.capacity else {
            return Row::new(group.name.clone(), vec![hosts, "no trusted host has an answer".into()]);
        };
        let at_least = match found.at_least {
            0 => None,
            some => Some(format!("on {some} nothing broke: at least so many")),
        };
        let cells = vec![
            hosts,
            found.min.to_string().into(),
            crate::number::brief(found.median).into(),
            crate::number::whole(found.sum).into(),
            Cell::from(counted(found.hosts as u64, "trusted host")).beside(at_least),
        ];
        Row::new(group.name.clone(), cells)
    };
    Table { title: "What they carry", ..Table::new(columns, fleet.groups.iter().map(row).collect()) }
}

fn measure_line(measure: &FleetMeasure) -> Vec<Cell> {
    if let Some(why) = &measure.why {
        return vec![measure.name.clone().into(), why.clone().into()];
    }
    let repeats = match (measure.outcome, measure.repeats_to_tell) {
        (FleetOutcome::CannotTell, Some(repeats)) => format!("about {repeats} a host"),
        (FleetOutcome::CannotTell, None) => "more than 1,000".to_owned(),
        _ => "\u{2013}".to_owned(),
    };
    vec![
        Cell::from(measure.name.clone()).beside(Some(measure.outcome.words().to_owned())),
        measure.hosts.to_string().into(),
        Cell::figure(measure.centre.map(|centre| format!("{}\u{202f}{}", three(centre), measure.unit))),
        spread(measure.between_hosts.as_ref()),
        spread(measure.of_repeats.as_ref()),
        repeats.into(),
    ]
}

/// A deviation in percent with its interval.
fn spread(figure: Option<&Figure>) -> Cell {
    let percent = |value: f64| format!("{:.2}", value * 100.0);
    let interval = figure.and_then(|figure| figure.low.zip(figure.high));
    let interval = interval.map(|(low, high)| format!("[{}, {}]", percent(low), percent(high)));
    Cell::figure(figure.map(|figure| percent(figure.value))).beside(interval)
}

/// The facts that make the groups: those that are not the same in all of them.
fn apart(fleet: &FleetVerdict) -> Table {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (fact, value) in fleet.groups.iter().flat_map(|group| &group.facts) {
        values.entry(fact).or_default().insert(value);
    }
    let facts: Vec<&str> =
        values.into_iter().filter(|(_, values)| values.len() > 1).map(|(fact, _)| fact).collect();
    let columns = vec![given("Group"), words("Fact"), words("Value")];
    let row = |group: &FleetGroup| {
        let line = |fact: &&str| {
            let value = group.facts.get(*fact).cloned().unwrap_or_else(|| "not known".to_owned());
            vec![Cell::from(*fact), value.into()]
        };
        let lines: Vec<Vec<Cell>> = match facts.is_empty() {
            true => vec![vec!["the user\u{2019}s own choice".into()]],
            false => facts.iter().map(line).collect(),
        };
        let head = Cell::from(group.name.clone()).beside(Some(counted(group.hosts.len() as u64, "host")));
        Row { head, lines, ..Row::default() }
    };
    Table::new(columns, fleet.groups.iter().map(row).collect())
}

/// Each unusual value of a fact with the hosts that have it, group by group.
fn unusual_facts(fleet: &FleetVerdict) -> Table {
    let columns = vec![
        given("Fact"),
        words("Usual value").dispensable(1),
        words("Value here"),
        words("Hosts"),
        measured("Of these differ"),
    ];
    let group = |group: &FleetGroup| {
        let mut found: BTreeMap<(&str, &str), (&UnusualFact, Vec<&FleetHost>)> = BTreeMap::new();
        for host in fleet.hosts.iter().filter(|host| host.group.as_ref() == Some(&group.name)) {
            for fact in &host.unusual {
                found.entry((&fact.fact, &fact.value)).or_insert_with(|| (fact, Vec::new())).1.push(host);
            }
        }
        let mut rows: Vec<(usize, Row)> = Vec::new();
        for (fact, hosts) in found.into_values() {
            let differ = hosts.iter().filter(|host| host.outcome == FleetOutcome::Differs).count();
            let names: Vec<&str> = hosts.iter().map(|host| &*host.name).collect();
            let cells = vec![
                fact.usual.clone().into(),
                fact.value.clone().into(),
                Cell::from(self::names(&names)),
                format!("{differ} of {}", hosts.len()).into(),
            ];
            rows.push((differ, Row::new(fact.fact.clone(), cells)));
        }
        rows.sort_by_key(|(differ, _)| std::cmp::Reverse(*differ));
        let head = (fleet.groups.len() > 1).then(|| group_named(&group.name));
        RowGroup { head, rows: rows.into_iter().map(|(_, row)| row).collect() }
    };
    let groups = fleet.groups.iter().map(group).filter(|group| !group.rows.is_empty());
    Table { groups: groups.collect(), ..Table::new(columns, Vec::new()) }
}

fn problems(fleet: &FleetVerdict) -> Table {
    let own = |host: &FleetHost| {
        let lines = host.problems.iter().map(|problem| vec![Cell::from(problem.clone())]);
        Row { head: host.name.clone().into(), lines: lines.collect(), ..Row::default() }
    };
    let hosts = fleet.hosts.iter().filter(|host| !host.problems.is_empty());
    Table::new(vec![given("Host"), words("What")], hosts.map(own).collect())
}

/// A chart of each measure of the groups with the most hosts: one dot a host, in the order of the values.
fn charts(fleet: &FleetVerdict) -> Vec<Chart> {
    let mut groups: Vec<&FleetGroup> = fleet.groups.iter().filter(|group| group.hosts.len() > 1).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.hosts.len()));
    let many = fleet.groups.len() > 1;
    let measures =
        groups.iter().flat_map(|group| group.measures.iter().map(move |measure| (*group, measure)));
    let drawn = measures.filter_map(|(group, measure)| Some((group, measure, measure.centre?)));
    drawn
        .take(CHARTS_MAX)
        .enumerate()
        .map(|(place, (group, measure, centre))| chart(fleet, place, (group, measure, centre), many))
        .collect()
}

fn chart(
    fleet: &FleetVerdict,
    place: usize,
    (group, measure, centre): (&FleetGroup, &FleetMeasure, f64),
    many: bool,
) -> Chart {
    let own =
        |host: &'_ FleetHost| host.changes.iter().find(|change| change.measure == measure.name).cloned();
    let mut hosts: Vec<(&FleetHost, HostDifference)> = fleet
        .hosts
        .iter()
        .filter(|host| host.group.as_ref() == Some(&group.name))
        .filter_map(|host| Some((host, own(host)?)))
        .collect();
    hosts.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let of = if many { format!(" \u{2013} {}", group.name) } else { String::new() };
    let step = group.step.as_deref().unwrap_or_default();
    Chart {
        id: format!("fleet-{place}").into(),
        title: format!("{} {step}{of}", measure.name).into(),
        unit: format!("{}; one dot a host with its interval; the axis need not begin at 0", measure.unit)
            .into(),
        about: "The measure on each host with its interval; the same figures are in the table of hosts"
            .into(),
        across: "hosts, in the order of the values",
        places: hosts.iter().map(|(host, _)| host.name.clone()).collect(),
        right: None,
        levels: vec![Level { from: 0, to: hosts.len(), value: centre }],
        series: lines(&hosts, measure),
        zoomed: true,
        marks: Vec::new(),
    }
}

fn lines(hosts: &[(&FleetHost, HostDifference)], measure: &FleetMeasure) -> Vec<Series> {
    let unit = Beside::of(std::iter::once(measure)).unit();
    let mut others = Series::new(&measure.name, "does not differ", Stroke::Dots);
    let mut odd = Series::new(&measure.name, "differs", Stroke::Odd);
    for (place, (host, own)) in hosts.iter().enumerate() {
        let line = if own.outcome == FleetOutcome::Differs { &mut odd } else { &mut others };
        let bar = own.change.low.zip(own.change.high);
        // The median, or the other host.
        let beside = own.value / (1.0 + own.change.value);
        let interval = bar.map(|(low, high)| format!(" [{}, {}]", tenths(low), tenths(high)));
        line.points.push(SeriesPoint {
            place,
            value: rounded(own.value),
            bar: bar.map(|(low, high)| (rounded(beside * (1.0 + low)), rounded(beside * (1.0 + high)))),
            lines: vec![
                host.name.clone(),
                format!("{}\u{202f}{}", three(own.value), measure.unit),
                format!(
                    "{}\u{202f}%{}{}",
                    tenths(own.change.value),
                    interval.unwrap_or_default(),
                    unit.trim_start_matches('%')
                ),
            ],
            struck: false,
        });
    }
    [odd, others].into_iter().filter(|line| !line.points.is_empty()).collect()
}

/// A chart needs no more digits than a screen has dots, and a page of a thousand hosts has thousands of numbers.
fn rounded(value: f64) -> f64 {
    let unit = 10_f64.powf(value.abs().max(1e-300).log10().floor() - 5.0);
    (value / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::super::super::Sheet;
    use super::*;
    use crate::{Colour, Style};

    const HOSTILE: &str = "<script>alert(1)</script>\u{1b}[2J|x";

    /// A fleet whose host, group and facts have a hostile name.
    fn hostile() -> FleetVerdict {
        let figure =
            |value: f64| Figure { value, low: Some(value - 0.01), high: Some(value + 0.01), n_repeats: 5 };
        let host = FleetHost {
            name: HOSTILE.to_owned(),
            end: crate::End::Trusted,
            exit_code: Some(0),
            because: HOSTILE.to_owned(),
            attempt: Some(1),
            attempts: 1,
            measured: true,
            trusted: true,
            group: Some(HOSTILE.to_owned()),
            run: Some(HOSTILE.to_owned()),
            sentence: None,
            capacity: None,
            outcome: FleetOutcome::Differs,
            changes: vec![HostDifference {
                measure: HOSTILE.to_owned(),
                value: 3.0,
                change: figure(0.08),
                simultaneous_low: Some(0.05),
                simultaneous_high: Some(0.11),
                p: 0.001,
                outcome: FleetOutcome::Differs,
            }],
            why: Some(HOSTILE.to_owned()),
            unusual: vec![UnusualFact {
                fact: HOSTILE.to_owned(),
                value: HOSTILE.to_owned(),
                usual: HOSTILE.to_owned(),
                hosts: 1,
            }],
            problems: vec![HOSTILE.to_owned()],
            errors: None,
        };
        let measure = FleetMeasure {
            name: HOSTILE.to_owned(),
            unit: HOSTILE.to_owned(),
            more_is_better: false,
            least_change: 0.03,
            hosts: 2,
            centre: Some(2.8),
            of_repeats: Some(figure(0.012)),
            between_hosts: None,
            outcome: FleetOutcome::Differs,
            repeats_to_tell: None,
            why: None,
        };
        let group = FleetGroup {
            name: HOSTILE.to_owned(),
            hosts: vec![HOSTILE.to_owned(), "b".to_owned()],
            facts: BTreeMap::from([(HOSTILE.to_owned(), HOSTILE.to_owned())]),
            capacity: None,
            step: Some(HOSTILE.to_owned()),
            measures: vec![measure],
            outcome: FleetOutcome::Differs,
            named: vec![HOSTILE.to_owned()],
            why: None,
        };
        FleetVerdict {
            schema: super::super::FLEET_SCHEMA,
            fleet: HOSTILE.to_owned(),
            scenario: Some(HOSTILE.to_owned()),
            asked: 2,
            measured: 1,
            trusted: 1,
            missing: vec!["b".to_owned()],
            verdict: FleetOutcome::Differs,
            named: vec![HOSTILE.to_owned()],
            confirmed: false,
            confirmation: None,
            reasons: vec![HOSTILE.to_owned()],
            sentence: HOSTILE.to_owned(),
            paragraphs: vec![HOSTILE.to_owned()],
            hosts: vec![host],
            groups: vec![group.clone(), FleetGroup { name: "other".to_owned(), ..group }],
        }
    }

    #[test]
    fn a_host_that_cannot_be_compared_has_the_reason_of_its_own_verdict_beside_it() {
        let host = FleetHost {
            end: End::NotTrusted,
            outcome: FleetOutcome::NotCompared,
            why: Some("no step counts".to_owned()),
            because: "other programs used 40 % of the host".to_owned(),
            unusual: Vec::new(),
            ..hostile().hosts.remove(0)
        };
        assert_eq!(reasons(&host), "no step counts; other programs used 40 % of the host");
        let why = format!("not trusted: {}", host.because);
        let alike = FleetHost { why: Some(why.clone()), ..host.clone() };
        assert_eq!(reasons(&alike), why, "once is enough");
        let compared = FleetHost { outcome: FleetOutcome::Alike, ..host.clone() };
        assert_eq!(reasons(&compared), "no step counts");
        let trusted = FleetHost { end: End::Trusted, ..host };
        assert_eq!(reasons(&trusted), "no step counts");
    }

    #[test]
    fn names_of_hosts_are_obeyed_by_no_reader() {
        let fleet = hostile();
        let html = fleet.html();
        assert!(!html.contains("<script>alert") && html.contains("&lt;script&gt;alert(1)"), "escaped");
        assert!(!html.contains('\u{1b}'));
        let markdown = fleet.markdown();
        assert!(!markdown.contains("<script>") && !markdown.contains('\u{1b}') && markdown.contains("\\|x"));
        let text = fleet.terminal(Style { colour: Colour::Plain, width: 80 });
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn a_host_out_of_line_has_another_look_in_the_chart_and_the_median_is_drawn() {
        let Sheet { charts, .. } = sheet(&hostile());
        assert_eq!(charts[0].series[0].legend, "differs");
        assert!(charts[0].series[0].stroke == Stroke::Odd);
        assert_eq!(charts[0].levels[0].value, 2.8);
    }

    #[test]
    fn of_two_hosts_each_figure_is_beside_the_other_also_in_the_chart() {
        let mut fleet = hostile();
        fleet.groups.truncate(1);
        let chart = &sheet(&fleet).charts[0];
        let point = &chart.series[0].points[0];
        // 3.0 is 8 % more than the other host's 2.778, whatever the centre is.
        let (low, high) = point.bar.unwrap();
        assert!((low - 2.778 * 1.07).abs() < 0.001 && (high - 2.778 * 1.09).abs() < 0.001, "{low} {high}");
        assert!(point.lines[2].ends_with("% [+7.0, +9.0] from the other host"), "{:?}", point.lines);
        let units = |fleet: &FleetVerdict| -> Vec<_> {
            hosts(fleet).columns.iter().filter_map(|column| column.unit.clone()).collect()
        };
        assert_eq!(units(&fleet)[0], "% from the other host");
        fleet.groups.push(fleet.groups[0].clone());
        fleet.groups[1].measures[0].hosts = 3;
        assert_eq!(units(&fleet)[0], "% from the median, of two hosts from the other");
        fleet.groups.remove(0);
        assert_eq!(units(&fleet)[0], "% from the median");
    }

    #[test]
    fn a_change_is_written_with_one_digit_and_none_has_no_sign() {
        let written = [0.0812, -0.004, 0.0001, -0.0001].map(tenths);
        assert_eq!(written, ["+8.1", "\u{2212}0.4", "0.0", "0.0"]);
    }
}

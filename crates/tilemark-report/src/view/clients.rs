//! Client machines beside each other: which of them sees longer times than the others at the same work.

use super::{Cell, Kind, Part, Row, RowGroup, Section, Table, View, given, group_named, measured, words};
use crate::number::{NARROW_SPACE, change, percent, three};
use tilemark_record::{
    clients::{ClientChange, ClientComparison, ClientFigures, ClientMeasure, ClientOutcome},
    result::PointResult,
};
use tilemark_units::median;

const ABOUT: &str = "Latency of the tiles that each client machine sent to, mean over repeats, with its difference from the median of all \
    clients (of two: from the other one) and the 95 % interval of that. A client differs where that is significant after a correction for all \
    clients, measures and steps, and a wider interval, for all of them together, lies beyond 3 % (p99: 5 %). From repeat to repeat each tile has \
    another client, so a slow tile makes no client look slow.";

/// Of guests rather than of their native twin, at the step where a client differs, else at the largest that holds; nothing where fewer than two clients sent loads.
pub(crate) fn clients(view: &View) -> Option<Section> {
    let (point, found) = step(view)?;
    let several = point.loads.len() > 1;
    let mut loads: Vec<&str> = found.measures.iter().map(|measure| &*measure.load).collect();
    loads.dedup();
    let groups = loads.iter().map(|load| RowGroup {
        head: several.then(|| group_named(load)),
        rows: rows(view, point, found, load),
    });
    let columns = vec![
        given("Client"),
        words("Verdict"),
        measured("p50").unit("ms, difference in %"),
        measured("p99").unit("ms, difference in %").dispensable(1),
        measured("Idle round trip").unit("ms").dispensable(2),
        measured("Busiest thread").dispensable(3),
    ];
    let table = Table { columns, groups: groups.collect(), ..Table::default() };
    let mut sentence = format!("At {}: {}.", tiles(point), found.sentence);
    if found.outcome == ClientOutcome::Differs {
        sentence.push_str(
            " This extra time comes from the client machine, not from this host: look at the load of that machine, at its network device, and at the network between the two.",
        );
    }
    let mut parts = vec![Part::Text(sentence)];
    if table.rows().next().is_some() {
        parts.extend([Part::Table(table), Part::Text(ABOUT.to_owned())]);
    }
    Some(Section::new("clients", "Client machines", parts))
}

fn tiles(point: &PointResult) -> String {
    crate::number::counted(point.tiles.into(), "tile")
}

fn step<'a>(view: &View<'a>) -> Option<(&'a PointResult, &'a ClientComparison)> {
    let holds = view.report.result.answer.holds;
    let known = view.points().filter_map(|(group, point)| Some((group.kind, point, point.clients.as_ref()?)));
    let shown = known.max_by_key(|(kind, point, found)| {
        let differs = found.outcome == ClientOutcome::Differs;
        (*kind == Kind::Main, differs, !found.measures.is_empty(), Some(point.tiles) == holds, point.tiles)
    });
    shown.map(|(_, point, found)| (point, found))
}

fn rows<'a>(view: &View<'a>, point: &'a PointResult, found: &ClientComparison, load: &str) -> Vec<Row> {
    let of_load = || found.measures.iter().filter(|measure| measure.load == load);
    let named = |name: &str| of_load().find(|measure| measure.name == name);
    let (p50, p99) = (named("p50"), named("p99"));
    let first = of_load().next().map(|measure| &measure.clients);
    let row = |one: &ClientChange| {
        let name = &*one.client;
        let of_client = |measure: Option<&ClientMeasure>| {
            let own = measure.and_then(|measure| measure.clients.iter().find(|one| one.client == name));
            own.map_or_else(|| Cell::figure(None), beside)
        };
        let outcomes = || of_load().flat_map(|measure| &measure.clients).filter(|one| one.client == name);
        let worst = outcomes().map(|one| one.outcome).min();
        let cells = vec![
            said(worst).into(),
            of_client(p50),
            of_client(p99),
            Cell::figure(median_of(view, point, name, |client| client.idle_round_trip_ms).map(three)),
            Cell::figure(median_of(view, point, name, |client| Some(client.busy.max_fraction)).map(percent)),
        ];
        Row::of(view, point, name, vec![cells])
    };
    first.into_iter().flatten().map(row).collect()
}

/// `0.56` with `+8.2 % [+7.0, +9.4]` beside it.
fn beside(one: &ClientChange) -> Cell {
    let range = one.change.low.zip(one.change.high);
    let range = range.map(|(low, high)| format!(" [{}, {}]", change(low), change(high))).unwrap_or_default();
    Cell::from(three(one.value_ms))
        .beside(Some(format!("{}{NARROW_SPACE}%{range}", change(one.change.value))))
}

const fn said(outcome: Option<ClientOutcome>) -> &'static str {
    match outcome {
        Some(ClientOutcome::Differs) => "differs",
        Some(ClientOutcome::Alike) => "alike",
        Some(ClientOutcome::CannotTell) | None => "cannot tell",
    }
}

/// The median over the repeats that count.
fn median_of<'a>(
    view: &View<'a>,
    point: &'a PointResult,
    name: &str,
    figure: impl Fn(&ClientFigures) -> Option<f64>,
) -> Option<f64> {
    let clients = view.kept_repeats(point).flat_map(|repeat| &repeat.clients);
    median(clients.filter(|client| client.name == name).filter_map(figure).collect())
}

//! A plan as a person reads it: what would be done, with minutes, memory, disk and what needs root.

use crate::plan::{
    checks::Looked,
    host_settings::{PlannedSetting, SettingPart},
    own_disks,
    prepare::{Prepared, is_file},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tilemark_plan::{
    expect::{self, blocks_within, most_of_search, time_of_database_templates},
    interference::CONFIRMED_PAIRS_MAX,
    own_bridge::OwnBridge,
    place::in_words,
    plan::{Demand, LoadPlan, Plan, Point, SideName},
    resolve::Sides,
    scenario::{Gate, Surge, SurgeAt},
    screening::LeftOut,
    trust::{HostUse, HostUseKind, host_uses},
};
use tilemark_statistics::{runs_one_at_a_time, runs_with_shared_baseline, smallest_effect_found};
use tilemark_units::{Rate, Span, counted, ranges};

/// The whole text.
pub fn of(prepared: &Prepared, looked: &Looked) -> String {
    let plan = &prepared.plan;
    let expected = &plan.expected;
    let awake = if plan.kept_awake().is_empty() { "" } else { ", deep idle states off" };
    let mut lines = paragraph(&format!("{}: {}", plan.scenario.name, plan.scenario.about));
    lines.push(String::new());
    let mut rows =
        |label: &str, texts: Vec<String>| lines.extend(texts.iter().flat_map(|text| row(label, text)));
    rows("Time", vec![time(plan)]);
    let guests = format!(
        "{} {}, with {} of memory and {} of disk",
        if plan.search.is_some() { "first" } else { "up to" },
        expected.guests,
        expected.memory.rounded(),
        expected.disk.rounded()
    );
    rows("Guests", vec![guests]);
    rows("Load on", vec![format!("{}{awake}", threads(&plan.processors.load))]);
    rows("Guests on", vec![threads(&plan.processors.guests)]);
    rows("Gate", vec![gates(plan)]);
    rows("Image", vec![looked.image.clone()]);
    rows("Tries", screening(plan));
    rows("Confirms", confirms(plan).into_iter().collect());
    rows("Surge", surges(plan));
    for (label, settings) in plan.sides.iter().flat_map(of_sides) {
        rows(label, vec![settings]);
    }
    rows("Network", plan.host.own_bridge.iter().map(network).collect());
    rows("Disk", own_disks::in_words(plan, !prepared.is_untrusted(is_file)));
    rows("Warning", looked.warnings.clone());
    let out_of_reach = |why: &String| format!("no difference can be shown by this run: {why}");
    rows("Warning", prepared.out_of_reach.iter().map(out_of_reach).collect());
    rows("Place", in_words(plan));
    let root = format!(
        "needed, for namespaces, mounts and network devices. Host settings that are changed and restored: {}cgroup2's memory controller where \
         it is off{}",
        if awake.is_empty() { "" } else { "the wake-up latency limit of the load's processors, " },
        if prepared.settings.is_empty() { "" } else { ", and those below" }
    );
    rows("Root", vec![root]);
    rows("Emulated", lowered(plan));
    let shown_below = |found: &&HostUse| {
        let is_of_host = matches!(found.kind, HostUseKind::Setting | HostUseKind::Profile);
        !is_of_host || prepared.named_by_file.contains(found)
    };
    let uses = host_uses(plan);
    rows("As root", uses.iter().filter(shown_below).map(|found| host_use(found, prepared)).collect());
    lines.extend(prepared.settings.iter().flat_map(setting));
    lines.extend(prepared.left_out.iter().flat_map(|left| row("Not set", left)));
    lines.extend(prepared.rivals.iter().flat_map(|rival| row("Warning", rival)));
    lines.extend([
        String::new(),
        format!(
            "{} of these points (warm-up + measured time), random order in each block (seed {}):",
            counted(plan.passes.len() as u64, "repeat"),
            plan.seed
        ),
    ]);
    lines.extend(points(plan));
    lines.extend(plan.search.iter().flat_map(|search| {
        let most = counted(search.limit, "tile");
        paragraph(&format!(
            "Then the tiles are doubled until a count does not hold, at most to {most}, and the counts between are measured. The ladder's \
             counts are for `tilemark run`."
        ))
    }));
    lines.join("\n")
}

/// What the user set on each of two sides, A first.
fn of_sides(sides: &Sides) -> [(&'static str, String); 2] {
    [("Side A", &sides.a), ("Side B", &sides.b)].map(|(label, settings)| {
        let settings: Vec<String> = settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let own = if settings.is_empty() { "no setting of its own".to_owned() } else { settings.join(", ") };
        (label, own)
    })
}

/// Which addresses the guests and the run itself have on a bridge of the user's own.
fn network(own: &OwnBridge) -> String {
    let (first, last) = (own.guest_address(0), own.last);
    let guests = if first == last { first.to_string() } else { format!("{first} to {last}") };
    format!("{guests} on the bridge {} for guests, and {} for the run itself", own.bridge, own.first)
}

/// What tile asks more, when, and at which counts of tiles.
fn surges(plan: &Plan) -> Vec<String> {
    let mut surges: BTreeMap<(u32, u32, u32, u32), BTreeSet<u32>> = BTreeMap::new();
    for point in &plan.points {
        let Some(surge) = point.measure.surge else { continue };
        let seconds = point.measure.surge_seconds();
        let counts = surges.entry((surge.tile, surge.factor, seconds.start, seconds.end)).or_default();
        counts.extend(point.has_surge().then_some(point.tiles));
    }
    let line = |((tile, factor, from, to), counts): ((u32, u32, u32, u32), BTreeSet<u32>)| {
        let what =
            format!("tile {tile} asks {factor} times as much from second {from} to {to} of the measurement");
        if plan.search.is_some() {
            let least = Surge { tile, factor, at: SurgeAt::Half }.least_tiles();
            return format!(
                "{what}, at {least} tiles or more; smaller counts have no surge, and the answer may be one of them"
            );
        }
        let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
        match &counts[..] {
            [] => format!("{what}, at none of these points"),
            [only] => format!("{what}, at {only} tiles"),
            [others @ .., last] => format!("{what}, at {} and {last} tiles", others.join(", ")),
        }
    };
    surges.into_iter().map(line).collect()
}

/// Loads that ask emulated guests for less than the scenario says, each with the least of its points.
fn lowered(plan: &Plan) -> Vec<String> {
    let mut loads: BTreeMap<&str, (f64, Rate)> = BTreeMap::new();
    for load in plan.points.iter().flat_map(|point| &point.loads) {
        let (Some(from), Demand::Open { rate, .. }) = (load.lowered_from, &load.demand) else { continue };
        let known = loads.entry(&load.name).or_insert((rate.get(), from));
        known.0 = known.0.min(rate.get());
    }
    let line = |(name, (least, from)): (&str, (f64, Rate))| {
        format!(
            "`{name}` sends each guest {}/s or a little more, because an emulated guest cannot serve {from} \
             (`--set load.{name}.rate={from}` sends the full rate)",
            (100.0 * least).round() / 100.0
        )
    };
    let mut paced: BTreeMap<&str, f64> = BTreeMap::new();
    for load in plan.points.iter().flat_map(|point| &point.loads).filter(|load| load.paced) {
        let Demand::Open { rate, .. } = &load.demand else { continue };
        let least = paced.entry(&load.name).or_insert(rate.get());
        *least = least.min(rate.get());
    }
    let line_of_paced = |(name, least): (&str, f64)| {
        format!(
            "`{name}` sends each guest {}/s or a little more instead of going flat out, so that the others can serve \
             (`--set load.{name}.loop=closed` goes flat out)",
            (100.0 * least).round() / 100.0
        )
    };
    loads.into_iter().map(line).chain(paced.into_iter().map(line_of_paced)).collect()
}

/// What of the host is used because a value names it, and who named it.
fn host_use(found: &HostUse, prepared: &Prepared) -> String {
    let by_file = &prepared.named_by_file;
    // Paths of files may be absolute by now.
    let is_named = by_file.iter().any(|named| named.key == found.key && named.kind == found.kind);
    let who = match (is_named, prepared.trust) {
        (false, _) => "",
        (true, false) => "; the file names it: a run needs `--trust`",
        (true, true) => "; the file names it: allowed by `--trust`",
    };
    format!("{found}{who}")
}

/// What is set on the host, file by file: on which side, where, and what is there now.
fn setting(found: &PlannedSetting) -> Vec<String> {
    let on = if found.on.is_empty() { String::new() } else { format!("on {}", found.on.join("; ")) };
    let on = || on.split_inclusive("; ").map(|one| one.trim_end().to_owned());
    let danger = if found.danger == "none" { String::new() } else { format!("; danger: {}", found.danger) };
    if found.parts.is_empty() {
        let mut parts = vec![found.key.clone(), format!("= {}", found.value)];
        parts.extend(on());
        parts.last_mut().expect("it has a value").push(':');
        parts.push("skipped, this host lacks it".to_owned());
        return filled("Sets", &parts);
    }
    let lines = |part: &SettingPart| {
        if part.is_spread {
            let spread = [format!("{}:", part.what), "the kernel spreads it itself".to_owned()];
            return filled("Unchanged", &spread.into_iter().chain(on()).collect::<Vec<_>>());
        }
        let now = part.now.as_ref().map_or("not known before the run".to_owned(), |now| format!("{now} now"));
        let mut parts = vec![part.what.clone(), format!("= {}", part.wanted)];
        parts.extend(on());
        parts.push(format!("({now}; {}{danger})", found.place));
        filled("Sets", &parts)
    };
    found.parts.iter().flat_map(lines).collect()
}

/// Columns of a line: a terminal's that is not narrow.
const COLUMNS: usize = 100;
/// Columns of a label, with the space after it.
const LABEL: usize = 10;

/// What a label names, as text.
fn row(label: &str, text: &str) -> Vec<String> {
    filled(label, &words(text))
}

/// What a label names, in parts that are not broken.
fn filled(label: &str, parts: &[String]) -> Vec<String> {
    flowing(label, LABEL, parts)
}

/// Text without a label.
fn paragraph(text: &str) -> Vec<String> {
    flowing("", 0, &words(text))
}

/// Lines of parts that are not broken: where they have no room beside each other, they go on below the first, whose column is `indent`.
fn flowing(label: &str, indent: usize, parts: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        let has_room = |line: &&mut String| line.chars().count() + 1 + part.chars().count() <= COLUMNS;
        match lines.last_mut().filter(has_room) {
            Some(line) => {
                line.push(' ');
                line.push_str(part);
            }
            None => {
                let label = if lines.is_empty() { label } else { "" };
                lines.push(format!("{label:<indent$}{part}"));
            }
        }
    }
    lines
}

/// The words of a text. What is between backticks is one: it is there to be copied.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_open = false;
    for word in text.split_whitespace() {
        match words.last_mut().filter(|_| is_open) {
            Some(last) => {
                last.push(' ');
                last.push_str(word);
            }
            None => words.push(word.to_owned()),
        }
        is_open ^= word.matches('`').count() % 2 == 1;
    }
    words
}

/// What a screening does and could find, before it starts.
pub(crate) fn screening(plan: &Plan) -> Vec<String> {
    let Some(screening) = &plan.screening else { return Vec::new() };
    let settings = screening.settings.len();
    let repeats = plan.points.first().map_or(0, |point| point.measure.repeats);
    let pairs = (screening.rows * repeats) as usize;
    // As many measures as are judged: throughput and p99, and of an open loop p50.
    let is_open = plan
        .points
        .iter()
        .flat_map(|point| &point.loads)
        .any(|load| matches!(load.demand, Demand::Open { .. }));
    let tests = settings * if is_open { 3 } else { 2 };
    let found = |deviation: f64| {
        smallest_effect_found(pairs, settings, tests, deviation)
            .map_or("none".to_owned(), |effect| format!("{:.1} %", 100.0 * effect))
    };
    let one = plan.points.first().map_or(Duration::ZERO, expect::time_of);
    let alone = Span::new(one * 2 * screening.pairs);
    let mut lines = vec![
        format!(
            "{} of the profile {} are screened in {} repeats (settings tested one at a time would need {} with a shared baseline, \
             {} in pairs)",
            counted(settings as u64, "setting"),
            screening.profile,
            2 * pairs,
            runs_with_shared_baseline(pairs, settings),
            runs_one_at_a_time(pairs, settings)
        ),
        format!(
            "smallest effect that is found in 95 of 100 cases: {} if repeats vary by 2 %, as throughput does on a quiet host; {} \
             if they vary by 10 %, as p99 does",
            found(0.02),
            found(0.1)
        ),
    ];
    if screening.pairs > 0 {
        lines.push(format!(
            "then each setting that seems to have an effect is confirmed alone in {}, about {} for the first of them",
            counted(screening.pairs, "pair"),
            alone.rounded()
        ));
    }
    lines.extend(not_screened(&screening.left_out));
    lines
}

/// What is not screened, all of one reason together: `not screened: thp, ksm, because this host has that value already`.
fn not_screened(left_out: &[LeftOut]) -> Vec<String> {
    let line = |(why, keys): (&str, Vec<&str>)| format!("not screened: {}, because {why}", keys.join(", "));
    LeftOut::by_reason(left_out).into_iter().map(line).collect()
}

/// The points of a plan, a line each; the rows of a screening are alike but for what they set, and are one line.
fn points(plan: &Plan) -> Vec<String> {
    match (&plan.screening, plan.points.first()) {
        (Some(screening), Some(first)) => {
            let rows = counted(screening.rows, "row");
            point_where(first, [format!("{rows} of settings and their mirror images")])
        }
        _ => plan.points.iter().flat_map(point).collect(),
    }
}

/// What is measured in further blocks where roles are measured in pairs, and how long that takes at most.
pub(crate) fn confirms(plan: &Plan) -> Option<String> {
    let blocks = Some(plan.confirm_blocks).filter(|blocks| *blocks > 0)?;
    let most = Span::new(expect::most_time_to_confirm(plan));
    Some(format!(
        "up to {CONFIRMED_PAIRS_MAX} pairs that look slow are measured in {} with their roles alone, which takes up to {} more",
        counted(blocks, "more block"),
        most.rounded()
    ))
}

/// How long it takes, with what may come on top.
pub(crate) fn time(plan: &Plan) -> String {
    let mut text = format!("about {}", plan.expected.time.rounded());
    if let Some(within) = plan.within.filter(|within| *within < plan.expected.time && plan.search.is_none()) {
        let wanted = plan.passes.last().map_or(0, |pass| pass.block);
        let enough = blocks_within(plan, within);
        text += &format!(
            " for all {wanted} repeats ({within} is enough for about {enough}; with fewer repeats only larger differences can be shown)"
        );
    }
    if let Some((tiles, _)) = most_of_search(plan) {
        text += &format!(" if about {} hold", counted(tiles, "tile"));
    }
    let templates = time_of_database_templates(&plan.points);
    if !templates.is_zero() {
        let once = Span::from_milliseconds(templates.as_millis() as u64);
        text += &format!(
            ", and about {} more where a template of its databases must be made first",
            once.rounded()
        );
    }
    if plan.points.iter().flat_map(|point| &point.loads).any(ends_by_count) {
        text += ", less where a load has sent its `count` before its time is over";
    }
    if let Some((_, most)) = most_of_search(plan) {
        text += &format!(
            "; at most {} then: a search measures counts near its limit again until it is certain. It takes longer where \
             more tiles hold; `--within` ends it in time",
            most.rounded()
        );
    } else if plan.search.is_some()
        && let Some(within) = plan.within
    {
        text += &format!(", at most {within}");
    }
    if may_retry(plan) {
        text += "; at most twice that where repeats are discarded and retried";
    }
    text
}

/// Whether repeats that are discarded are retried after the others. A search goes on until it is sure, within its time;
/// what is emulated is not retried.
fn may_retry(plan: &Plan) -> bool {
    let is_measured = |point: &Point| !plan.host.emulates(point.backend);
    plan.search.is_none() && plan.within.is_none() && plan.points.iter().any(is_measured)
}

/// Whether a load ends with its messages; the measurement's length is only the most that it may take.
fn ends_by_count(load: &LoadPlan) -> bool {
    load.work.facts().count() > 0
}

fn threads(ids: &[u32]) -> String {
    let word = if ids.len() == 1 { "thread" } else { "threads" };
    // A core's threads are beside each other there.
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    format!("{word} {}", ranges(&ids))
}

/// A point: below `12 tiles,` go on what it has more than a line.
fn point(point: &Point) -> Vec<String> {
    let side = point.side.map(|side| format!("side {}", side.name()));
    let values = point.vary.iter().map(|(name, value)| format!("{name} {value}"));
    point_where(point, side.into_iter().chain(values))
}

/// A point, or several that differ in what `own` says.
fn point_where(point: &Point, own: impl IntoIterator<Item = String>) -> Vec<String> {
    let tiles = format!("{:>12}, ", counted(point.tiles, "tile"));
    let guests = counted(point.guests.len() as u64, "guest");
    let mut parts = vec![format!("{guests:>11} on {}", point.backend.name())];
    parts.extend(own);
    parts.iter_mut().for_each(|part| part.push(','));
    parts.push(format!("{} × ({} + {})", point.measure.repeats, point.measure.warmup, point.measure.length));
    flowing(&tiles, tiles.len(), &parts)
}

/// The limits of a plan; where its two sides have different ones, those of each.
fn gates(plan: &Plan) -> String {
    let of_side = |side| plan.points.iter().find(|point| point.side == Some(side)).map(|point| &point.gate);
    match [SideName::A, SideName::B].map(of_side) {
        [Some(a), Some(b)] if a != b => format!("side A: {}; side B: {}", gate_words(a), gate_words(b)),
        _ => gate_words(&plan.scenario.gate),
    }
}

/// The limits that every count of tiles is held to.
fn gate_words(gate: &Gate) -> String {
    let always = format!("p99 ≤ {}, errors ≤ {}, achieved ≥ {}", gate.p99, gate.errors, gate.achieved);
    let mean = gate.mean.map(|mean| format!("mean ≤ {mean}"));
    let good = gate.good.map(|part| format!("good pages ≥ {part}"));
    let tolerable = gate.tolerable.map(|part| format!("tolerable pages ≥ {part}"));
    [mean, good, tolerable].into_iter().flatten().fold(always, |text, limit| format!("{text}, {limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{TILE, ladder, plan_of, search};
    use tilemark_plan::{plan::Backend, resolve::Request, screening::Screening};

    #[test]
    fn threads_are_listed_as_the_kernel_lists_them() {
        assert_eq!(threads(&[0, 4, 1, 5, 2, 8]), "threads 0-2,4-5,8");
        assert_eq!(threads(&[3]), "thread 3");
    }

    #[test]
    fn both_sides_are_named_with_what_they_set_and_a_is_first() {
        let set = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
        let sides = Sides { a: set("qemu.machine", "q35"), b: set("qemu.machine", "pc") };
        let own = |text: &str| text.to_owned();
        assert_eq!(
            of_sides(&sides),
            [("Side A", own("qemu.machine = q35")), ("Side B", own("qemu.machine = pc"))]
        );
        let one = Sides { a: Default::default(), ..sides };
        assert_eq!(of_sides(&one)[0], ("Side A", own("no setting of its own")));
    }

    #[test]
    fn what_many_points_set_is_listed_below_each_other_within_a_hundred_columns() {
        let set_on = |on: Vec<String>| PlannedSetting {
            key: "vm.swappiness".to_owned(),
            value: "10".to_owned(),
            on,
            place: "host",
            danger: "none",
            parts: Vec::new(),
        };
        let whole = ": skipped, this host lacks it";
        assert_eq!(setting(&set_on(Vec::new())), [format!("Sets      vm.swappiness = 10{whole}")]);
        let on_side = set_on(vec!["side B".to_owned()]);
        assert_eq!(setting(&on_side), [format!("Sets      vm.swappiness = 10 on side B{whole}")]);
        let rows: Vec<String> = (1..=12).map(|row| format!("settings row {row} mirrored")).collect();
        let lines = setting(&set_on(rows.clone()));
        assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= COLUMNS), "{lines:?}");
        assert!(lines[1..].iter().all(|line| line.starts_with("          settings row ")), "{lines:?}");
        for row in &rows {
            assert_eq!(lines.iter().filter(|line| line.contains(&**row)).count(), 1, "{row}: {lines:?}");
        }
    }

    #[test]
    fn a_screening_has_one_line_for_its_rows_and_one_for_each_reason_not_to_screen() {
        let left = |key: &str, why: &str| LeftOut { key: key.to_owned(), why: why.to_owned() };
        let has = "this host has that value already";
        let left_out =
            vec![left("thp", has), left("smt", "the profile gives it no value today"), left("ksm", has)];
        assert_eq!(
            not_screened(&left_out),
            [
                "not screened: thp, ksm, because this host has that value already",
                "not screened: smt, because the profile gives it no value today",
            ]
        );
        let mut plan = plan_of(TILE, &ladder());
        assert_eq!(points(&plan).len(), plan.points.len());
        let one = plan.points[0].clone();
        plan.points = (1..=8)
            .map(|row| Point { vary: [("settings".to_owned(), format!("row {row}"))].into(), ..one.clone() })
            .collect();
        plan.screening = Some(Screening {
            profile: "mine".to_owned(),
            settings: Vec::new(),
            left_out,
            rows: 4,
            pairs: 12,
        });
        let lines = points(&plan);
        assert!(
            lines.len() == 1 && lines[0].contains("4 rows of settings and their mirror images, "),
            "{lines:?}"
        );
    }

    #[test]
    fn long_text_goes_on_in_its_column_and_what_is_there_to_be_copied_is_whole() {
        let text =
            format!("{}`--set load.web.rate=300/s` {}", "one more word ".repeat(6), "and on ".repeat(20));
        let text = text.trim();
        for (lines, label, indent) in [(row("Root", text), "Root", LABEL), (paragraph(text), "", 0)] {
            assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= COLUMNS), "{lines:?}");
            assert!(lines[0].starts_with(&format!("{label:<indent$}one")), "{lines:?}");
            let column = " ".repeat(indent);
            let goes_on =
                |line: &String| line.strip_prefix(&column).is_some_and(|rest| !rest.starts_with(' '));
            assert!(lines[1..].iter().all(goes_on), "{lines:?}");
            assert!(lines.iter().any(|line| line.contains("`--set load.web.rate=300/s`")), "{lines:?}");
            let whole = lines.join(" ");
            let whole = whole.split_whitespace().skip(usize::from(!label.is_empty())).collect::<Vec<_>>();
            assert_eq!(whole.join(" "), text);
        }
        let long = "x".repeat(2 * COLUMNS);
        assert_eq!(row("Image", &long), [format!("Image     {long}")], "one word is never broken");
    }

    #[test]
    fn a_point_at_which_much_varies_goes_on_below_its_guests() {
        let mut point_of = plan_of(TILE, &ladder()).points.remove(0);
        let short = point(&point_of);
        assert!(short.len() == 1 && short[0].starts_with("      1 tile,  "), "{short:?}");
        let named = |name: u32| (format!("what varies {name}"), "a value".to_owned());
        point_of.vary = (1..=8).map(named).collect();
        let lines = point(&point_of);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= COLUMNS), "{lines:?}");
        assert!(lines[1..].iter().all(|line| line.starts_with("              what varies ")), "{lines:?}");
        assert!(lines.last().unwrap().ends_with("s)"), "{lines:?}");
    }

    #[test]
    fn a_surge_is_shown_with_its_seconds_and_the_counts_that_have_it() {
        let text = TILE.replace("length = \"1s\"", "length = \"20s\"\nsurge = { tile = 4, factor = 20 }");
        assert_ne!(text, TILE);
        let shown = |request: Request| surges(&plan_of(&text, &request)).join("\n");
        let what = "tile 4 asks 20 times as much from second 10 to 15 of the measurement, at ";
        let at = |tiles: &[u32]| shown(Request { tiles: Some(tiles.to_vec()), ..ladder() });
        assert_eq!(at(&[1, 2, 4, 8]), format!("{what}4 and 8 tiles"));
        assert_eq!(at(&[1, 4]), format!("{what}4 tiles"));
        assert_eq!(at(&[2, 4, 8, 16]), format!("{what}4, 8 and 16 tiles"));
        let of_search = shown(Request { tiles: Some(vec![1, 4]), ..search(None) });
        assert_eq!(
            of_search,
            format!("{what}4 tiles or more; smaller counts have no surge, and the answer may be one of them")
        );
        assert_eq!(surges(&plan_of(TILE, &ladder())), Vec::<String>::new());
    }

    #[test]
    fn the_time_says_that_discarded_repeats_may_be_retried_and_only_where_they_may() {
        let says = |request: &Request| time(&plan_of(TILE, request)).contains("at most twice that");
        assert!(says(&ladder()));
        assert!(!says(&search(None)));
        assert!(!says(&Request { within: Some(Span::from_seconds(600)), ..ladder() }));
        assert!(!says(&Request { backends: vec![Backend::Emulated], ..ladder() }));
    }

    #[test]
    fn the_time_says_how_many_repeats_a_shorter_one_is_enough_for() {
        let text = |within| time(&plan_of(TILE, &Request { within, ..ladder() }));
        let all = plan_of(TILE, &ladder()).expected.time;
        assert!(!text(Some(all)).contains("enough"), "{}", text(Some(all)));
        let shorter = Span::new(all.get() * 7 / 10);
        let said = text(Some(shorter));
        assert!(
            said.contains(&format!(
                "{} for all 3 repeats ({shorter} is enough for about 2; with fewer repeats only larger differences can be shown)",
                all.rounded()
            )),
            "{said}"
        );
        assert!(!time(&plan_of(TILE, &search(Some(shorter)))).contains("enough"));
    }

    #[test]
    fn a_closed_loop_that_has_a_rate_in_emulated_guests_is_named_with_the_flag_that_keeps_it() {
        let guest = "[[guest]]\nname = \"jobs\"\nrole = \"compute\"\n[[load]]\nname = \"jobs\"\nguest = \"jobs\"\n\
                     loop = \"closed\"\n[load.jobs]\n[ladder]";
        let plan = plan_of(
            &TILE.replace("[ladder]", guest),
            &Request { backends: vec![Backend::Emulated], tiles: Some(vec![1]), ..ladder() },
        );
        let said = lowered(&plan).join("\n");
        assert!(
            said.contains("`jobs` sends each guest") && said.contains("instead of going flat out"),
            "{said}"
        );
        assert!(said.contains("`--set load.jobs.loop=closed`"), "{said}");
    }

    #[test]
    fn a_rate_that_is_lowered_for_emulated_guests_is_named_with_the_flag_that_keeps_it() {
        let lines = |backend| lowered(&plan_of(TILE, &Request { backends: vec![backend], ..ladder() }));
        let emulated = lines(Backend::Emulated);
        assert_eq!(emulated.len(), 1, "{emulated:?}");
        assert!(emulated[0].contains("cannot serve 2500/s"), "{emulated:?}");
        assert!(emulated[0].contains("`--set load.web.rate=2500/s`"), "{emulated:?}");
        assert_eq!(lines(Backend::Native), Vec::<String>::new());
    }
}

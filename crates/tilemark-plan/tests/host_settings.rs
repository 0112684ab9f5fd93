//! Settings of the host in plans: on sides, in what varies, from profiles, and as a screening.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as such")]

use std::collections::BTreeMap;
use tilemark_fixtures::{self as fixtures, settings as flags};
use tilemark_plan::{
    host_settings::ProfileSettings,
    parse::Draft,
    plan::{Backend, Plan, Point, SideName},
    resolve::{Request, Sides, resolve},
    screening::{Screened, ScreenedSetting, Screening},
};
use tilemark_units::Bytes;

fn asked() -> Request {
    fixtures::request(&[Backend::Native])
}

fn plan(text: &str, request: &Request) -> Plan {
    fixtures::plan(text, request, &fixtures::host(4, Bytes::from_gib(64)))
}

fn problem(text: &str, request: &Request) -> String {
    let host = fixtures::host(4, Bytes::from_gib(64));
    resolve(&Draft::from_toml(text, "test").unwrap(), request, &host).unwrap_err().to_string()
}

/// `key=value` of what a point sets.
fn set(point: &Point) -> Vec<String> {
    point.host.setting.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

#[test]
fn each_side_and_each_value_of_what_varies_has_its_own_settings() {
    let varies = format!(
        "{}[host]\nsetting.vm.swappiness = 10\n[vary.thp]\nkey = \"host.setting.thp\"\nvalues = [\"always\", \"never\"]\n",
        fixtures::TILE
    );
    let sides = Sides {
        a: BTreeMap::new(),
        b: flags(&[("host.setting.ksm", "on"), ("host.setting.vm.swappiness", "60")]),
    };
    let plan = plan(&varies, &Request { sides: Some(sides), tiles: Some(vec![1]), ..asked() });
    let of = |thp: &str, side: SideName| {
        let is_meant = |point: &&Point| point.side == Some(side) && point.vary["thp"] == thp;
        set(plan.points.iter().find(is_meant).unwrap())
    };
    for thp in ["always", "never"] {
        assert_eq!(of(thp, SideName::A), [format!("thp={thp}"), "vm.swappiness=10".to_owned()]);
        let b = ["ksm=on".to_owned(), format!("thp={thp}"), "vm.swappiness=60".to_owned()];
        assert_eq!(of(thp, SideName::B), b);
    }
}

#[test]
fn a_profile_is_read_once_for_the_points_that_name_it_and_a_search_keeps_the_settings() {
    let sides = Sides { a: flags(&[("host.profile", "none")]), b: flags(&[("host.profile", "fast")]) };
    let own = flags(&[("host.setting.ksm", "off")]);
    let mut plan = plan(fixtures::TILE, &Request { sides: Some(sides), settings: own, ..asked() });
    let mut reads = Vec::new();
    let profile = ProfileSettings {
        setting: flags(&[("ksm", "on"), ("thp", "always")]),
        optional: ["thp".to_owned()].into(),
    };
    let read = |name: &str| {
        reads.push(name.to_owned());
        Ok::<_, ()>(profile.clone())
    };
    plan.expand_profiles(read).unwrap();
    assert_eq!(reads, ["fast"]);
    let of = |side| plan.points.iter().find(|point| point.side == Some(side)).unwrap();
    assert_eq!(set(of(SideName::A)), ["ksm=off"]);
    assert_eq!(set(of(SideName::B)), ["ksm=off", "thp=always"]);
    assert_eq!(of(SideName::B).host.profile.as_deref(), Some("fast"));
    assert_eq!(plan.point_at(of(SideName::B), 9, 4).host, of(SideName::B).host);
    assert_eq!(plan.expand_profiles(|_| Err("unread")), Err("unread"));
}

#[test]
fn a_plan_without_settings_is_written_as_before_and_one_of_before_is_read() {
    let plan = plan(fixtures::TILE, &asked());
    assert!(!plan.sets_host());
    let document = serde_json::to_value(&plan).unwrap();
    let point = document["points"][0].as_object().unwrap();
    assert!(!point.contains_key("host") && !point.contains_key("screened"), "{point:?}");
    assert!(document.get("screening").is_none());
    assert_eq!(document["scenario"]["host"], serde_json::json!({ "load_processors": "own" }));
    assert_eq!(serde_json::from_value::<Plan>(document).unwrap(), plan);
}

fn screening(settings: u32) -> Screening {
    let setting = |number: u32| ScreenedSetting {
        key: format!("k.{number}"),
        value: number.to_string(),
        found: None,
        claim: None,
    };
    let settings = (0..settings).map(setting).collect();
    Screening { profile: "p".to_owned(), settings, left_out: Vec::new(), rows: 12, pairs: 12 }
}

fn screen(settings: u32) -> Request {
    Request { screening: Some(screening(settings)), settings: flags(&[("measure.repeats", "2")]), ..asked() }
}

#[test]
fn a_screening_measures_each_row_beside_its_mirror_image_in_random_order_with_either_first() {
    let plan = plan(fixtures::TILE, &screen(11));
    assert_eq!(plan.points.len(), 24);
    assert!(plan.points.iter().all(|point| point.tiles == 1), "at the first step only");
    let of = |point: usize| plan.points[point].screened.clone().unwrap();
    let mut mirrors_first = 0;
    for pair in plan.passes.chunks(2) {
        assert_eq!((pair[0].block, of(pair[0].point).group()), (pair[1].block, of(pair[1].point).group()));
        let both: Vec<String> = pair.iter().flat_map(|pass| set(&plan.points[pass.point])).collect();
        assert_eq!(both.len(), 11, "each setting is on in one of the two: {both:?}");
        mirrors_first += usize::from(matches!(of(pair[0].point), Screened::Row { mirrored: true, .. }));
    }
    assert_eq!((plan.passes.len(), mirrors_first), (48, 12));
    let order = |block: u32| -> Vec<u32> {
        plan.passes.iter().filter(|pass| pass.block == block).map(|pass| of(pass.point).group()).collect()
    };
    assert_ne!(order(1), order(2));
    assert_ne!(order(1), (1..=12).flat_map(|row| [row, row]).collect::<Vec<_>>());
}

#[test]
fn what_is_confirmed_is_measured_alone_and_what_paid_together() {
    let plan = plan(fixtures::TILE, &screen(11));
    let keys = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let confirming = screening(11).confirming(&keys(&["k.1", "k.4", "k.7"]), &keys(&["k.1", "k.7"]));
    let points: Vec<Point> = confirming
        .into_iter()
        .map(|(screened, host)| plan.point_to_confirm(24, screened, host, 12))
        .collect();
    let found: Vec<(String, Vec<String>)> =
        points.iter().map(|point| (point.vary["settings"].clone(), set(point))).collect();
    let wanted = [
        ("nothing set", vec![]),
        ("k.1 alone", vec!["k.1=1"]),
        ("k.4 alone", vec!["k.4=4"]),
        ("k.7 alone", vec!["k.7=7"]),
        ("all that paid", vec!["k.1=1", "k.7=7"]),
    ];
    assert_eq!(found, wanted.map(|(name, set)| (name.to_owned(), keys(&set))));
    assert!(points.iter().all(|point| point.measure.repeats == 12 && point.loads == plan.points[0].loads));
    assert_eq!(screening(11).confirming(&keys(&["k.1"]), &keys(&["k.1"])).len(), 2, "together is alone");
}

#[test]
fn what_cannot_be_screened_is_refused_with_its_reason() {
    assert!(problem(fixtures::TILE, &screen(0)).contains("no setting of the profile `p` can be screened"));
    assert!(problem(fixtures::TILE, &screen(48)).contains("48 settings are more than the 47"));
    let sets = format!("{}[host]\nsetting.ksm = \"on\"\n", fixtures::TILE);
    assert!(problem(&sets, &screen(2)).contains("sets the host"));
    let bad = Request { settings: flags(&[("host.setting.a/b", "1")]), ..asked() };
    assert!(problem(fixtures::TILE, &bad).contains("`host.setting.a/b` is not a valid key"));
    let odd = Request { settings: flags(&[("host.setting.ksm", "\"a\\nb\"")]), ..asked() };
    assert!(problem(fixtures::TILE, &odd).contains("`host.setting.ksm` has the value"));
}

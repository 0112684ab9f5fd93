//! What a scenario from elsewhere names on the host is found, wherever in it the value is.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as such")]

use std::collections::BTreeMap;
use tilemark_fixtures::{self as fixtures, settings};
use tilemark_plan::{
    builtin::BUILTINS,
    parse::Draft,
    plan::{Backend, Plan},
    resolve::{Request, Sides},
    trust::{HostUse, HostUseKind, host_uses, not_typed},
};
use tilemark_units::Bytes;

fn scenario(rest: &str) -> String {
    format!(
        "schema = 1\nname = \"t\"\nabout = \"t\"\n[[guest]]\nname = \"a\"\nrole = \"idle\"\n[ladder]\ntiles = [1, 2]\n{rest}"
    )
}

fn asked() -> Request {
    fixtures::request(&[Backend::Emulated])
}

fn plan(text: &str, request: &Request) -> Plan {
    fixtures::plan(text, request, &fixtures::host(64, Bytes::from_gib(1024)))
}

/// `key=value`, of a list or of files as JSON has them.
fn pair(found: &HostUse) -> String {
    let value = found.value.as_str().map_or_else(|| found.value.to_string(), str::to_owned);
    assert!(!found.value.is_string() || !value.starts_with(['[', '{']), "{value} is JSON in a text");
    format!("{}={value}", found.key)
}

/// `key=value` of all that the plan uses, and of what of it no flag gave.
fn found(rest: &str, request: &Request) -> (Vec<String>, Vec<String>) {
    let uses = host_uses(&plan(&scenario(rest), request));
    let words = |uses: &[HostUse]| uses.iter().map(pair).collect();
    let all = words(&uses);
    (all, words(&not_typed(uses, &request.settings, request.sides.as_ref())))
}

#[test]
fn settings_of_the_host_in_a_file_need_trust_and_those_of_flags_do_not() {
    let file = "[host]\nprofile = \"p.toml\"\nsetting.vm.swappiness = 10\nsetting.kernel.core_pattern = \"|/evil\"\n\
        [vary.ksm]\nkey = \"host.setting.ksm\"\nvalues = [\"on\", \"off\"]";
    let (all, not_typed) = found(file, &asked());
    let wanted = [
        "host.profile=p.toml",
        "host.setting.kernel.core_pattern=|/evil",
        "host.setting.ksm=on",
        "host.setting.vm.swappiness=10",
        "host.setting.ksm=off",
    ];
    assert_eq!(all, wanted);
    assert_eq!(not_typed, wanted);
    let typed = Request {
        settings: settings(&[("host.setting.vm.swappiness", "10"), ("host.profile", "p.toml")]),
        sides: Some(Sides {
            a: settings(&[("host.setting.ksm", "on")]),
            b: settings(&[("host.setting.ksm", "true")]),
        }),
        ..asked()
    };
    let (all, not_typed) = found("", &typed);
    let wanted =
        ["host.profile=p.toml", "host.setting.ksm=on", "host.setting.vm.swappiness=10", "host.setting.ksm=1"];
    assert_eq!(all, wanted);
    assert_eq!(not_typed, Vec::<String>::new());
    let other = found("[host]\nsetting.vm.swappiness = 11", &Request { sides: typed.sides, ..asked() });
    assert_eq!(other.1, ["host.setting.vm.swappiness=11"], "another key was typed");
}

#[test]
fn a_program_is_found_in_the_text_a_preset_and_every_value_of_what_varies() {
    for (rest, request, wanted) in [
        ("", asked(), &[][..]),
        ("[qemu]\nmachine = \"pc-q35-8.2\"", asked(), &[][..]),
        ("[qemu]\nbinary = \"/x\"\nkernel = \"/k\"", asked(), &["qemu.binary=/x", "qemu.kernel=/k"][..]),
        (
            "[qemu]\nmachine = \"pc,firmware=/etc/shadow\"",
            asked(),
            &["qemu.machine=pc,firmware=/etc/shadow"][..],
        ),
        ("[preset.p]\n\"qemu.binary\" = \"/x\"", asked(), &[][..]),
        (
            "[preset.p]\n\"qemu.binary\" = \"/x\"",
            Request { preset: Some("p".to_owned()), ..asked() },
            &["qemu.binary=/x"][..],
        ),
        (
            "[preset.p]\n\"qemu\" = { binary = \"/x\" }",
            Request { preset: Some("p".to_owned()), ..asked() },
            &["qemu.binary=/x"][..],
        ),
        (
            "[vary.a]\nkey = \"qemu.binary\"\nvalues = [\"/1\", \"/2\"]",
            asked(),
            &["qemu.binary=/1", "qemu.binary=/2"][..],
        ),
        (
            "[vary.a]\nkey = \"qemu\"\nvalues = [{ machine = \"q35\" }, { binary = \"/2\" }]",
            asked(),
            &["qemu.binary=/2"][..],
        ),
    ] {
        let (all, by_file) = found(rest, &request);
        assert_eq!(all, wanted, "{rest}");
        assert_eq!(by_file, wanted, "{rest}");
    }
}

#[test]
fn what_the_user_typed_needs_no_trust_and_what_wins_over_it_does() {
    let typed = |pairs: &[(&str, &str)]| Request { settings: settings(pairs), ..asked() };
    let file = "[qemu]\nbinary = \"/file\"";
    let vary = "[vary.a]\nkey = \"qemu.binary\"\nvalues = [\"/1\", \"/typed\"]";
    for (rest, request, wanted) in [
        (file, typed(&[]), &["qemu.binary=/file"][..]),
        (file, typed(&[("qemu.binary", "/typed")]), &[]),
        ("", typed(&[("qemu", "{ binary = \"/typed\" }")]), &[]),
        (file, typed(&[("qemu.kernel", "/typed")]), &["qemu.binary=/file"]),
        // What varies comes after what is typed.
        (vary, typed(&[("qemu.binary", "/typed")]), &["qemu.binary=/1"]),
        // A preset comes before it; a value typed for another key is no consent to this one.
        (file, typed(&[("qemu.machine", "/file")]), &["qemu.binary=/file"]),
    ] {
        assert_eq!(found(rest, &request).1, wanted, "{rest} {:?}", request.settings);
    }
}

#[test]
fn each_side_is_looked_at_and_its_flags_are_typed() {
    let sides = Sides { a: settings(&[]), b: settings(&[("qemu.binary", "/b")]) };
    let request = Request { sides: Some(sides), ..asked() };
    let (all, by_file) = found("[qemu]\nbinary = \"/file\"", &request);
    assert_eq!(all, ["qemu.binary=/file", "qemu.binary=/b"]);
    assert_eq!(by_file, ["qemu.binary=/file"], "side A is the file's");
}

#[test]
fn no_scenario_inside_the_program_names_anything_of_the_host() {
    for builtin in BUILTINS {
        let presets = Draft::from_toml(builtin.text, builtin.name).unwrap().finish().unwrap().preset;
        for preset in std::iter::once(None).chain(presets.into_keys().map(Some)) {
            // Where the largest of them fits.
            let request = Request { preset, backends: vec![Backend::Kvm], tiles: Some(vec![1]), ..asked() };
            assert_eq!(host_uses(&plan(builtin.text, &request)), [], "{} {:?}", builtin.name, request.preset);
        }
    }
}

#[test]
fn what_is_printed_of_a_value_holds_no_escape() {
    let request = Request { settings: settings(&[("qemu.binary", "/x\u{1b}[2J")]), ..asked() };
    let uses = host_uses(&plan(&scenario(""), &request));
    assert_eq!(uses[0].kind, HostUseKind::Program);
    assert_eq!(uses[0].to_string(), "starts the program \"/x\\u{1b}[2J\" (`qemu.binary`)");
}

#[test]
fn a_sandbox_that_is_off_is_listed_and_may_be_a_side() {
    let off = "[qemu]\nwalls = \"off\"";
    let wanted = vec!["qemu.walls=off".to_owned()];
    assert_eq!(found(off, &asked()), (wanted.clone(), wanted.clone()));
    assert_eq!(found("[qemu]\nwalls = \"on\"", &asked()), (Vec::new(), Vec::new()));
    let sides = Sides { a: BTreeMap::new(), b: settings(&[("qemu.walls", "off")]) };
    let request = Request { sides: Some(sides), ..asked() };
    assert_eq!(found("", &request), (wanted, Vec::new()), "who types it, wants it");
    let plan = plan(&scenario(""), &request);
    assert_eq!(plan.points.iter().filter(|point| !point.qemu.walls.are_on()).count(), 1, "B");
}

#[test]
fn files_that_a_web_load_or_firmware_come_from_need_trust_and_those_of_flags_do_not() {
    let rest = "[qemu]\nfirmware = \"/f/bios.bin\"\n[[guest]]\nname = \"web\"\nrole = \"web\"\npages = \"/srv/shop\"\n[[load]]\nname = \"own\"\n\
        guest = \"web\"\nloop = \"closed\"\n[load.web]\ntls = true\nrequest_file = \"requests.toml\"\nca_file = \"ca.pem\"\n\
        body_file = \"/etc/shadow\"\n";
    let scenario = scenario(rest).replace("about = \"t\"", "about = \"t\"\nheadline = \"own\"");
    let words = |settings_given: &[(&str, &str)]| -> Vec<String> {
        let request = Request { settings: settings(settings_given), ..asked() };
        let uses = host_uses(&plan(&scenario, &request));
        let left = not_typed(uses, &request.settings, None);
        left.iter().map(pair).collect()
    };
    let all = [
        "qemu.firmware=/f/bios.bin",
        "load.own.web.request_file=requests.toml",
        "load.own.web.ca_file=ca.pem",
        "load.own.web.body_file=/etc/shadow",
    ];
    assert_eq!(words(&[]), all);
    assert_eq!(words(&[("load.own.web.body_file", "/etc/shadow")]), all[..3]);
}

#[test]
fn the_file_of_an_image_needs_trust_and_one_of_a_flag_or_inside_the_program_does_not() {
    let words = |image: &str, typed: &[(&str, &str)]| -> Vec<String> {
        let text = scenario("").replace("about = \"t\"", &format!("about = \"t\"\n{image}"));
        let request = Request { settings: settings(typed), ..asked() };
        let left = not_typed(host_uses(&plan(&text, &request)), &request.settings, None);
        assert!(left.iter().all(|found| found.kind == HostUseKind::File), "{left:?}");
        left.iter().map(pair).collect()
    };
    let elsewhere = "[image]\nfrom = \"/x/image.toml\"\nfiles = { \"/srv/a\" = \"/etc/passwd\" }";
    let both = ["image.from=/x/image.toml", "image.files={\"/srv/a\":\"/etc/passwd\"}"];
    for (image, typed, wanted) in [
        ("", &[][..], &[][..]),
        ("image = \"database\"", &[], &[]),
        ("[image]\nfrom = \"database\"", &[], &[]),
        ("image = \"/x/image.toml\"", &[], &["image=/x/image.toml"]),
        ("image = \"image.toml\"", &[], &["image=image.toml"]),
        ("image = \"/x/image.toml\"", &[("image", "/x/image.toml")], &[]),
        ("[image]\nfrom = \"mine/image.toml\"", &[], &["image.from=mine/image.toml"]),
        (elsewhere, &[], &both),
        (elsewhere, &[("image.from", "/x/image.toml")], &both[1..]),
    ] {
        assert_eq!(words(image, typed), wanted, "{image} {typed:?}");
    }
}

//! A report without whose machine it was: host names, serial numbers, addresses and home folders go, figures
//! stay.
//!
//! Every struct is taken apart by name. A new field does not compile here until somebody has decided whether
//! it can show who measured.

mod fleet;

pub use fleet::{redact_drift, redact_fleet};

use crate::Report;
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};
use tilemark_plan::{
    plan::{HostSummary, MacAddress, NETWORK_PREFIX, Plan, Point, guest_address},
    scenario::{QemuTable, Scenario},
    screening::{LeftOut, ScreenedSetting},
};
use tilemark_record::{
    clients::ClientComparison,
    result::{
        Answer, Comparison, Cost, Function, GuestDisk, Hooks, LeftOver, PointResult, Provenance, RunResult,
        Screening, SettingEffect, Verdict,
    },
    summary::{RepeatSummary, SettingRead},
};
use tilemark_units::natural_key;

/// Takes out of `report` what shows whose machine it was. Guests' names and addresses are the same on every
/// machine and stay; so do kernel, processor and versions, without which figures mean nothing.
pub fn redact(report: &mut Report) {
    let scrub = Scrub::of(report);
    let Report { result, repeats, seconds: _, telemetry: _, plan } = report;
    scrub.result(result);
    for RepeatSummary {
        loads,
        incidents,
        kernel_errors,
        levels,
        point: _,
        repeat: _,
        block: _,
        began_unix_ms: _,
        backend: _,
        host,
        memory: _,
        ready_s: _,
        seconds_to_ready: _,
        uses: _,
        settings,
        place: _,
        is_load_in_place: _,
        hooks,
        clients,
    } in repeats
    {
        loads.iter_mut().for_each(|load| scrub.all(&mut load.errors));
        incidents.iter_mut().for_each(|incident| scrub.text(&mut incident.what));
        // Names of programs say whose machine it is.
        host.others.clear();
        scrub.all(kernel_errors);
        hooks.iter_mut().for_each(|run| scrub.maybe(&mut run.failed));
        for SettingRead { key, what, place: _, set, before, value, effective, is_elsewhere: _ } in settings {
            scrub.text(key);
            scrub.text(what);
            [set, before, value, effective].into_iter().for_each(|text| scrub.maybe(text));
        }
        for client in clients {
            scrub.client(&mut client.name);
            // Its carrier may name users and addresses that are in the site file only.
            client.lost.iter_mut().for_each(|why| *why = without_carriers_words(why));
            scrub.maybe(&mut client.lost);
            // A clock counts from the machine's boot.
            (client.intended_begin_ns, client.actual_begin_ns) = (None, None);
        }
        // Two reports of one boot are of one machine.
        levels.iter_mut().for_each(|levels| levels.boot.clear());
    }
    scrub.plan(plan);
}

/// What the measured host is called instead.
const HOST: &str = "(host)";
/// Between a client machine's name and why it was lost.
const WAS_LOST: &str = " was lost: ";

/// A name, and what is read instead of it.
struct Word {
    /// In small letters.
    name: String,
    with: String,
}

impl Word {
    /// Whether it is at the start of a text in small letters, as a whole name. Volumes, bridges and disks are named after their host: its
    /// name goes also where such a name goes on.
    fn begins(&self, lower: &str) -> bool {
        let goes_on = |letter: char| in_name(letter) && !(self.with == HOST && matches!(letter, '-' | '_'));
        lower.strip_prefix(&*self.name).is_some_and(|after| !after.starts_with(goes_on))
    }
}

/// What must not be read any more.
struct Scrub {
    /// Names of the host and of client machines; the longest name first.
    words: Vec<Word>,
    /// Client machines with what they are called instead.
    clients: BTreeMap<String, String>,
}

impl Scrub {
    fn of(report: &Report) -> Self {
        let whole = [&report.result.provenance.host, &report.plan.host.name];
        let short = whole.iter().map(|name| name.split('.').next().unwrap_or_default());
        let hosts = whole.iter().map(|name| name.as_str()).chain(short);
        let clients = report.repeats.iter().flat_map(|repeat| &repeat.clients);
        let mut clients: Vec<&str> = clients.map(|client| &*client.name).collect();
        // Numbers then follow the order of the page.
        clients.sort_by_cached_key(|name| natural_key(name));
        clients.dedup();
        let numbered = (1_u32..).zip(clients);
        Self::new(
            hosts,
            numbered.map(|(number, name)| (name.to_owned(), format!("client-{number}"))).collect(),
        )
    }

    /// A client machine may be the host itself, and then goes as the host.
    fn new<'n>(hosts: impl Iterator<Item = &'n str>, clients: BTreeMap<String, String>) -> Self {
        let hosts = hosts.map(|name| Word { name: name.to_ascii_lowercase(), with: HOST.to_owned() });
        let named = clients.iter();
        let named = named.map(|(name, alias)| Word { name: name.to_ascii_lowercase(), with: alias.clone() });
        let mut words: Vec<Word> = hosts.chain(named).filter(|word| !word.name.is_empty()).collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.name.len()));
        Self { words, clients }
    }

    /// A client keeps one name in all of its places.
    fn client(&self, name: &mut String) {
        *name = self.clients.get(name).cloned().unwrap_or_else(|| "client".to_owned());
    }

    fn result(&self, result: &mut RunResult) {
        let RunResult {
            schema: _,
            judged_by: _,
            run,
            scenario: _,
            preset: _,
            verdict,
            answer,
            sentence,
            cost,
            comparison,
            function,
            scaling,
            interference: _,
            screening,
            points,
            idle_power_w: _,
            provenance,
            missing,
        } = result;
        let Verdict { status: _, reasons } = verdict;
        let Answer {
            none_because,
            limit,
            breaks,
            backend: _,
            holds: _,
            undecided: _,
            confidence: _,
            capacity: _,
            more: _,
            untried: _,
            vcpus_per_thread: _,
        } = answer;
        if let Some(detail) = breaks.as_mut().and_then(|broke| broke.detail.as_mut()) {
            self.text(detail);
        }
        self.text(run);
        self.all(reasons);
        self.maybe(none_because);
        self.all(&mut limit.evidence);
        self.text(sentence);
        if let Some(Function { why_not, proven: _, asked: _, right: _, wrong: _, failed: _ }) = function {
            self.maybe(why_not);
        }
        if let Some(Cost { unequal, sentence, tiles: _, processor: _, p99: _, throughput: _, figure: _ }) =
            cost
        {
            self.all(unequal);
            self.text(sentence);
        }
        if let Some(Comparison { differences, sentence, failures: _, measures: _, voided: _, outcome: _ }) =
            comparison
        {
            self.text(sentence);
            for difference in differences {
                self.text(&mut difference.a);
                self.text(&mut difference.b);
            }
        }
        if let Some(screening) = screening {
            self.screening(screening);
        }
        scaling.iter_mut().flat_map(|fit| fit.vary.values_mut()).for_each(|value| self.text(value));
        points.iter_mut().for_each(|point| self.point_result(point));
        self.provenance(provenance);
        missing.values_mut().for_each(|reason| self.text(reason));
    }

    fn screening(&self, screening: &mut Screening) {
        // A profile may be named by its path.
        self.text(&mut screening.profile);
        for setting in &mut screening.settings {
            let SettingEffect { key, value, found, claim, screened: _, confirmed: _, failures, outcome: _ } =
                setting;
            self.text(key);
            self.text(value);
            self.maybe(found);
            self.maybe(claim);
            failures.iter_mut().for_each(|failure| self.text(&mut failure.name));
        }
        self.all(&mut screening.together_of);
        screening.left_out.iter_mut().for_each(|left| self.left_out(left));
    }

    fn left_out(&self, left: &mut LeftOut) {
        let LeftOut { key, why } = left;
        self.text(key);
        self.text(why);
    }

    /// Values of settings of the host, which may name devices.
    fn host_settings(&self, profile: &mut Option<String>, setting: &mut BTreeMap<String, String>) {
        self.maybe(profile);
        let all = std::mem::take(setting).into_iter();
        *setting = all.map(|(key, value)| (self.clean(&key), self.clean(&value))).collect();
    }

    fn point_result(&self, point: &mut PointResult) {
        point.repeats_voided.iter_mut().for_each(|void| self.text(&mut void.reason));
        point
            .broke
            .iter_mut()
            .chain(&mut point.across)
            .filter_map(|broke| broke.detail.as_mut())
            .for_each(|detail| self.text(detail));
        self.all(&mut point.notes);
        if let Some(ClientComparison { outcome: _, named, sentence, why, measures }) = &mut point.clients {
            named.iter_mut().for_each(|name| self.client(name));
            self.text(sentence);
            self.maybe(why);
            let changes = measures.iter_mut().flat_map(|measure| &mut measure.clients);
            changes.for_each(|change| self.client(&mut change.client));
        }
        point.vary.values_mut().for_each(|value| self.text(value));
    }

    fn provenance(&self, provenance: &mut Provenance) {
        let Provenance {
            host,
            kernel,
            qemu,
            image,
            guest_kernel,
            command,
            tilemark: _,
            processor: _,
            threads: _,
            memory_bytes: _,
            began: _,
            seconds: _,
            expected_seconds: _,
            sessions: _,
            as_it_was: _,
            left,
            changed_by_others,
            hooks: Hooks { before, after },
            hashes,
            disks,
        } = provenance;
        for GuestDisk { guest, file, format: _, bytes: _, mark: _, kernel } in disks {
            self.text(guest);
            self.text(file);
            self.maybe(kernel);
        }
        for LeftOver { what, remedy } in left {
            self.text(what);
            self.text(remedy);
        }
        self.all(changed_by_others);
        host.clear();
        self.text(kernel);
        self.maybe(qemu);
        self.maybe(image);
        self.maybe(guest_kernel);
        self.text(command);
        self.maybe(before);
        self.maybe(after);
        // A QEMU is named by its path.
        *hashes = std::mem::take(hashes).into_iter().map(|(name, hash)| (self.clean(&name), hash)).collect();
    }

    fn plan(&self, plan: &mut Plan) {
        let HostSummary {
            name,
            kernel,
            processor: _,
            threads: _,
            memory_total: _,
            memory_available: _,
            kvm: _,
            hardware: _,
            counts_energy: _,
            topology: _,
            own_bridge,
        } = &mut plan.host;
        // Guests then look as those of a run without it do.
        if own_bridge.take().is_some() {
            plan.points.iter_mut().for_each(on_the_run_network);
        }
        name.clear();
        self.text(kernel);
        self.text(&mut plan.origin);
        let of_sides =
            plan.sides.iter_mut().flat_map(|sides| sides.a.values_mut().chain(sides.b.values_mut()));
        plan.settings.values_mut().chain(of_sides).for_each(|value| self.text(value));
        self.scenario(&mut plan.scenario);
        if let Some(screening) = &mut plan.screening {
            self.text(&mut screening.profile);
            for ScreenedSetting { key, value, found, claim } in &mut screening.settings {
                self.text(key);
                self.text(value);
                self.maybe(found);
                self.maybe(claim);
            }
            screening.left_out.iter_mut().for_each(|left| self.left_out(left));
        }
        for Point { vary, qemu, host, loads, guests, .. } in &mut plan.points {
            guests
                .iter_mut()
                .filter_map(|guest| guest.from.as_mut())
                .for_each(|disk| self.text(&mut disk.path));
            self.host_settings(&mut host.profile, &mut host.setting);
            vary.values_mut().for_each(|value| self.text(value));
            self.qemu(qemu);
            for load in loads {
                load.work.texts_mut().into_iter().for_each(|text| self.text(text));
            }
        }
    }

    fn scenario(&self, scenario: &mut Scenario) {
        self.text(&mut scenario.about);
        scenario.image.texts_mut().into_iter().for_each(|text| self.text(text));
        scenario.guest.iter_mut().for_each(|guest| self.maybe(&mut guest.from));
        self.qemu(&mut scenario.qemu);
        self.host_settings(&mut scenario.host.profile, &mut scenario.host.setting);
        for load in &mut scenario.load {
            load.work.texts_mut().into_iter().for_each(|text| self.text(text));
        }
        scenario
            .preset
            .values_mut()
            .flat_map(|preset| preset.values_mut())
            .for_each(|value| self.json(value));
        scenario.vary.values_mut().flat_map(|vary| &mut vary.values).for_each(|value| self.json(value));
    }

    fn qemu(&self, qemu: &mut QemuTable) {
        let QemuTable { binary, machine: _, cpu: _, args, firmware, kernel, walls: _ } = qemu;
        self.all(args);
        self.maybe(binary);
        self.maybe(kernel);
        self.maybe(firmware);
    }

    fn json(&self, value: &mut serde_json::Value) {
        if let serde_json::Value::String(text) = value {
            self.text(text);
        }
    }

    fn all(&self, texts: &mut [String]) {
        texts.iter_mut().for_each(|text| self.text(text));
    }

    fn maybe(&self, text: &mut Option<String>) {
        if let Some(text) = text {
            self.text(text);
        }
    }

    fn text(&self, text: &mut String) {
        *text = self.clean(text);
    }

    fn clean(&self, text: &str) -> String {
        let mut clean = replace_words(&without_programs(&without_words_of_carriers(text)), &self.words);
        for (folder, kept) in [("/home/", "~"), ("/dev/disk/by-id/", "/dev/disk/by-id/(serial)")] {
            clean = replace_next_part(&clean, folder, kept);
        }
        replace_tokens(&clean)
    }
}

/// Part of a host's name, where it goes on.
fn in_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '-' | '_')
}

/// Replaces each of `words` wherever it is a whole name. It takes one pass: a name may be what another one is called instead.
fn replace_words(text: &str, words: &[Word]) -> String {
    let lower = text.to_ascii_lowercase();
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (start, _) in text.char_indices() {
        if start < done || text[..start].ends_with(in_name) {
            continue;
        }
        if let Some(word) = words.iter().find(|word| word.begins(&lower[start..])) {
            out.push_str(&text[done..start]);
            out.push_str(&word.with);
            done = start + word.name.len();
        }
    }
    out + &text[done..]
}

/// Takes out what carriers said about clients that were lost, which is in brackets after the reason. All up to the last bracket goes: what
/// ssh says may have brackets of its own.
fn without_words_of_carriers(text: &str) -> String {
    let mut reasons = text.split(WAS_LOST);
    let before = reasons.next().unwrap_or_default().to_owned();
    reasons.fold(before, |out, why| format!("{out}{WAS_LOST}{}", without_carriers_words(why)))
}

/// Why one client was lost, without what its carrier said.
fn without_carriers_words(why: &str) -> String {
    let Some((reason, said)) = why.split_once(" (") else { return why.to_owned() };
    format!("{reason}{}", said.rsplit_once(')').map_or("", |(_, after)| after))
}

/// Before why the last repeat of several was discarded. In older records "of" follows.
const DISCARDED_FOR: &str = "the last one because ";

/// Takes out which programs made the host too busy to go on: they are in brackets after that reason, and say whose machine it is.
fn without_programs(text: &str) -> String {
    let Some((before, why)) = text.split_once(DISCARDED_FOR) else { return text.to_owned() };
    let Some((reason, named)) = why.split_once(" (") else { return text.to_owned() };
    let mut depth = 1;
    let end = named.find(|letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        depth == 0
    });
    format!("{before}{DISCARDED_FOR}{reason}{}", end.map_or("", |end| &named[end + 1..]))
}

/// Replaces `folder` and the name after it.
fn replace_next_part(text: &str, folder: &str, with: &str) -> String {
    let mut pieces = text.split(folder);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let name = piece.find(|c: char| c == '/' || c == ',' || c.is_whitespace()).unwrap_or(piece.len());
        out.push_str(with);
        out.push_str(&piece[name..]);
    }
    out
}

/// Replaces addresses, machine ids and UUIDs, word by word.
fn replace_tokens(text: &str) -> String {
    let in_token = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '-') || c.is_ascii_alphabetic();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(in_token) {
        out.push_str(&rest[..start]);
        let token = &rest[start..];
        let length = token.find(|c| !in_token(c)).unwrap_or(token.len());
        let (whole, after) = token.split_at(length);
        let body = whole.trim_end_matches('.');
        out.push_str(&token_text(body));
        out.push_str(&whole[body.len()..]);
        rest = after;
    }
    out + rest
}

/// Pieces between colons or dashes of the longest thing that is replaced: an IPv6 address that begins or ends with `::`.
const PIECES_MAX: usize = 9;

/// A word with each address and serial number in it replaced: `tcp:192.0.2.5:4444`, `192.0.2.5-192.0.2.9`. The longest is taken first, as
/// the end of an address may be an address, too.
fn token_text(token: &str) -> String {
    let cuts = token.match_indices([':', '-']).map(|(at, _)| at);
    let ends: Vec<usize> = cuts.chain([token.len()]).collect();
    let mut out = String::with_capacity(token.len());
    let (mut start, mut piece) = (0, 0);
    while piece < ends.len() {
        let last = ends.len().min(piece + PIECES_MAX);
        let found = (piece..last).rev().find_map(|last| Some((last, replaced(&token[start..ends[last]])?)));
        let (last, text) = found.unwrap_or((piece, &token[start..ends[piece]]));
        out.push_str(text);
        let next = (ends[last] + 1).min(token.len());
        out.push_str(&token[ends[last]..next]);
        (start, piece) = (next, last + 1);
    }
    out
}

/// What is read instead of an address or a serial number; the same, if everybody has that address. `None` if it is neither.
fn replaced(text: &str) -> Option<&str> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(if everybody_has(address) { text } else { "(address)" });
    }
    let hex = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let parts = |by: char, lengths: &[usize]| {
        let parts: Vec<&str> = text.split(by).collect();
        parts.len() == lengths.len()
            && parts.iter().zip(lengths).all(|(part, length)| part.len() == *length && hex(part))
    };
    if parts(':', &[2; 6]) {
        let of_guest = text.to_ascii_lowercase().starts_with("52:54:00");
        return Some(if of_guest { text } else { "(address)" });
    }
    let is_serial = parts('-', &[8, 4, 4, 4, 12]) || (text.len() == 32 && hex(text));
    is_serial.then_some("(serial)")
}

/// Gives guests the addresses that they have without a bridge of the user's own.
fn on_the_run_network(point: &mut Point) {
    let own: Vec<Ipv4Addr> = point.guests.iter().map(|guest| guest.address).collect();
    for guest in &mut point.guests {
        let asked = guest.asks.and_then(|asked| own.iter().position(|address| *address == asked));
        guest.asks = asked.map(|place| guest_address(place as u32));
        guest.address = guest_address(guest.index);
        guest.mac = MacAddress::of_guest(guest.index);
        guest.network = None;
    }
}

/// Loopback, nobody's, and the run network, which is the same on every machine.
fn everybody_has(address: IpAddr) -> bool {
    let run_network = |address: Ipv4Addr| {
        let bits = u32::from(address) >> (32 - NETWORK_PREFIX);
        bits == u32::from(tilemark_plan::plan::BRIDGE_ADDRESS) >> (32 - NETWORK_PREFIX)
    };
    address.is_loopback() || address.is_unspecified() || matches!(address, IpAddr::V4(v4) if run_network(v4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubbed(text: &str) -> String {
        let scrub = Scrub::new(["rack7", "rack7.example.org"].into_iter(), BTreeMap::new());
        let mut text = text.to_owned();
        scrub.text(&mut text);
        text
    }

    #[test]
    fn what_identifies_the_machine_is_removed() {
        let cases = [
            ("on RACK7, not on rack71", "on (host), not on rack71"),
            ("ssh rack7.example.org:22", "ssh (host):22"),
            ("from 192.168.3.4:8080 to fe80::1.", "from (address):8080 to (address)."),
            ("link 0c:42:a1:00:11:22 up", "link (address) up"),
            ("id 4c4c4544-0042-3510-8053-b7c04f4e5931", "id (serial)"),
            ("machine 0123456789abcdef0123456789abcdef", "machine (serial)"),
            ("/home/mia/qemu -b /dev/disk/by-id/ata-SSD_S3Z9, x", "~/qemu -b /dev/disk/by-id/(serial), x"),
            ("-incoming tcp:192.168.1.5:4444", "-incoming tcp:(address):4444"),
            ("nbd:198.51.100.9:10809", "nbd:(address):10809"),
            ("nbd:[2001:db8::5]:10809 of 2001:db8::/32", "nbd:[(address)]:10809 of (address)/32"),
            ("at inet6:2001:db8:0:0:0:0:0:5, 10.0.0.1: down", "at inet6:(address), (address): down"),
            ("bridge 198.51.100.64-198.51.100.191", "bridge (address)-(address)"),
            ("10.0.0.1:eth0 is net0:0c:42:a1:00:11:22", "(address):eth0 is net0:(address)"),
            ("/dev/mapper/luks-4c4c4544-0042-3510-8053-b7c04f4e5931", "/dev/mapper/luks-(serial)"),
            ("/dev/rack7-vg/guest1", "/dev/(host)-vg/guest1"),
            ("/dev/mapper/rack7--vg-guest1 and RACK7_data", "/dev/mapper/(host)--vg-guest1 and (host)_data"),
        ];
        for (before, after) in cases {
            assert_eq!(scrubbed(before), after);
        }
    }

    #[test]
    fn names_of_programs_that_made_the_host_busy_are_removed() {
        for reason in [
            "other programs used 95.8 % of the host",
            "the hypervisor took 3.1 % of the host as steal; other programs used 95.8 % of the host",
            "of foreign load 95.8 % of the host",
        ] {
            let because = format!("6 repeats in a row were discarded, the last one because {reason}");
            let named =
                format!("{because} (rustc (6 processes) 90.1 %, own-thing 0.8 %). Try again (later).");
            assert_eq!(scrubbed(&named), format!("{because}. Try again (later)."));
            assert_eq!(scrubbed(&format!("{because} (odd( 1 %)")), because);
        }
    }

    #[test]
    fn what_a_carrier_said_about_a_lost_client_is_removed() {
        for (before, after) in [
            (
                "client client-1 was lost: its stream ended (Connection to lab3.corp.example.org closed by remote host.)",
                "client client-1 was lost: its stream ended",
            ),
            (
                "client a was lost: it was silent for 5 s (mia@lab3 :) (2)); client b was lost: its stream ended; `ssh` ended with code 255 (x)",
                "client a was lost: it was silent for 5 s; client b was lost: its stream ended; `ssh` ended with code 255",
            ),
            ("client a was lost: its stream ended (cut off at lab3", "client a was lost: its stream ended"),
            ("5 repeats (of 6) are kept", "5 repeats (of 6) are kept"),
        ] {
            assert_eq!(scrubbed(before), after);
        }
    }

    #[test]
    fn names_that_look_as_what_replaces_them_are_replaced_once() {
        let clients = (2..=11).map(|number| (format!("client-{number}"), format!("client-{}", number - 1)));
        let scrub = Scrub::new(["client-9"].into_iter(), clients.collect());
        for (before, after) in [
            (
                "client client-2 is slower; these differ too: CLIENT-3, client-10",
                "client client-1 is slower; these differ too: client-2, client-9",
            ),
            ("client-11 and client-110, client-9: lost", "client-10 and client-110, (host): lost"),
        ] {
            assert_eq!(scrub.clean(before), after);
        }
    }

    #[test]
    fn guests_on_the_users_bridge_look_as_those_of_any_run() {
        let own = tilemark_plan::own_bridge::OwnBridge {
            bridge: "br-rack7".to_owned(),
            first: [192, 0, 2, 64].into(),
            last: [192, 0, 2, 191].into(),
            prefix: 24,
        };
        let request = tilemark_fixtures::request(&[tilemark_plan::plan::Backend::Native]);
        let plain = tilemark_fixtures::host(4, tilemark_units::Bytes::from_gib(64));
        let host = HostSummary { own_bridge: Some(own), ..plain.clone() };
        let scrub = Scrub::new(std::iter::empty(), BTreeMap::new());
        let redacted = |host: &HostSummary| {
            let mut plan = tilemark_fixtures::plan(tilemark_fixtures::TILE_WITH_CLIENT, &request, host);
            scrub.plan(&mut plan);
            plan
        };
        assert_eq!(redacted(&host), redacted(&plain));
    }

    #[test]
    fn what_is_the_same_everywhere_stays() {
        for text in [
            "tile-003-web at 10.77.1.4:80, 52:54:00:00:00:03, 127.0.0.1",
            "p99 81.2 ms [74.0, 90.1]: 5 of 6, 2026-11-21T02:00:00Z",
            "Linux 6.18.0-amd64, QEMU 7.2.22",
            "Linux 5.14.0-427.13.1.el9: std::fmt, [::1]:80, tcp:10.77.1.4:80, :: and a-b:c-",
        ] {
            assert_eq!(scrubbed(text), text);
        }
    }
}

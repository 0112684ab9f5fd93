//! Whether the host's own firewall drops what a bridge forwards. It sees frames of a bridge where `br_netfilter` is on, which Docker
//! switches on, and a firewall that drops what nobody let through then drops the guests' packets too.

use serde_json::Value;
use std::{
    io::Read,
    path::Path,
    process::{Command, Stdio},
};
use tilemark_plan::own_bridge::OwnBridge;

/// A list of rules is read up to so many bytes: that of a host with thousands of containers has a few megabytes.
const RULES_BYTES_MAX: u64 = 16 << 20;
/// A part of the kernel with rules, a program that shows them with its arguments, and how what it prints is read.
type Shows = (fn() -> bool, &'static [&'static str], fn(&str) -> Option<String>);
/// Firewalls by the programs that show their rules, of which not all may be there. A program is asked only where the kernel has its
/// part of the firewall already: it would load it, and it would stay.
const PROGRAMS: [Shows; 4] = [
    (has_nf_tables, &["nft", "-j", "list", "ruleset"], of_nft),
    (has_nf_tables, &["iptables-nft", "-S"], of_iptables),
    (has_ip_tables, &["iptables-legacy", "-S"], of_iptables),
    (has_ip_tables, &["iptables", "-S"], of_iptables),
];

/// A kernel without modules has what it will ever have.
fn has_nf_tables() -> bool {
    Path::new("/sys/module/nf_tables").exists() || !Path::new("/proc/modules").exists()
}

/// Whether the older part has a table of filters in this network; only root can read it.
fn has_ip_tables() -> bool {
    std::fs::read_to_string("/proc/net/ip_tables_names")
        .is_ok_and(|names| names.lines().any(|name| name == "filter"))
}

/// A firewall that may drop guests' packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filtered {
    /// What is so.
    pub(crate) what: String,
    /// What to do.
    pub(crate) remedy: String,
}

/// Looks at the switches of `br_netfilter`, and where one is on at the firewall. Rules are seen by root only. Nothing where nothing is known
/// to drop anything.
pub(crate) fn look(own: &OwnBridge) -> Option<Filtered> {
    let bridge = &own.bridge;
    let switches = [
        format!("/sys/class/net/{bridge}/bridge/nf_call_iptables"),
        "/proc/sys/net/bridge/bridge-nf-call-iptables".to_owned(),
    ];
    let on = switches.iter().find(|path| is_on(Path::new(path)))?;
    let here = PROGRAMS.iter().filter(|(is_here, ..)| is_here());
    let drops = here.into_iter().find_map(|(_, words, read)| read(&printed_by(words)?))?;
    let off = if *on == switches[0] {
        format!("`ip link set {bridge} type bridge nf_call_iptables 0`")
    } else {
        "`sysctl net.bridge.bridge-nf-call-iptables=0`; Docker then no longer separates containers of one network".to_owned()
    };
    Some(Filtered {
        what: format!(
            "this host's firewall sees what the bridge {bridge} forwards (br_netfilter), and may drop guests' packets: {drops}"
        ),
        remedy: format!(
            "add a rule there that accepts what is forwarded from and to {} to {}, or switch it off for bridges: {off}",
            own.first, own.last
        ),
    })
}

fn is_on(switch: &Path) -> bool {
    std::fs::read_to_string(switch).is_ok_and(|text| text.trim() == "1")
}

/// What a program prints; nothing where it is missing, fails, or takes longer than ten seconds.
fn printed_by(words: &[&str]) -> Option<String> {
    let mut command = Command::new("timeout");
    command.arg("10").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut printed = Vec::new();
    let read = child.stdout.take()?.take(RULES_BYTES_MAX).read_to_end(&mut printed);
    // It may have more to say than is read: its output is closed by now, so it ends.
    let ended = child.wait();
    (read.is_ok() && ended.is_ok_and(|status| status.success()))
        .then(|| String::from_utf8_lossy(&printed).into_owned())
}

/// The first chain on the way of forwarded IPv4 packets that drops any, by `nft -j list ruleset`.
fn of_nft(json: &str) -> Option<String> {
    let document: Value = serde_json::from_str(json).ok()?;
    let all = document["nftables"].as_array()?;
    let of_ip = |part: &&Value| matches!(part["family"].as_str(), Some("ip" | "inet"));
    let chains: Vec<&Value> = all.iter().map(|part| &part["chain"]).filter(of_ip).collect();
    let is_elsewhere = |rule: &Value| {
        let of = |chain: &&&Value| {
            chain["family"] == rule["family"]
                && chain["table"] == rule["table"]
                && chain["name"] == rule["chain"]
        };
        chains.iter().find(of).is_some_and(|chain| chain["hook"].is_string() && chain["hook"] != "forward")
    };
    let mut forward = chains.iter().filter(|chain| chain["hook"] == "forward");
    forward.find_map(|chain| {
        let words = |what: &str| {
            let of = |key: &str| chain[key].as_str().unwrap_or_default();
            format!("chain {} of table {} {what}", of("name"), of("table"))
        };
        if chain["policy"] == "drop" {
            return Some(words("drops what no rule accepts"));
        }
        // Also in a chain that this one jumps to, but not in one for what comes to the host or leaves it.
        let in_table = |rule: &&Value| {
            rule["family"] == chain["family"] && rule["table"] == chain["table"] && !is_elsewhere(rule)
        };
        let drops = |rule: &Value| {
            let parts = rule["expr"].as_array();
            parts.is_some_and(|parts| {
                parts.iter().any(|part| part.get("drop").is_some() || part.get("reject").is_some())
            })
        };
        let mut rules = all.iter().map(|part| &part["rule"]).filter(in_table);
        rules.any(drops).then(|| words("has rules that drop packets"))
    })
}

/// The same by `iptables -S`.
fn of_iptables(rules: &str) -> Option<String> {
    if rules.lines().any(|line| line.trim() == "-P FORWARD DROP") {
        return Some("chain FORWARD of iptables drops what no rule accepts".to_owned());
    }
    let is_forward = |line: &&str| !line.starts_with("-A INPUT") && !line.starts_with("-A OUTPUT");
    let drops = |line: &str| line.contains("-j DROP") || line.contains("-j REJECT");
    let mut lines = rules.lines().filter(is_forward);
    lines.any(drops).then(|| "iptables has rules that drop what is forwarded".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_firewall_that_drops_what_is_forwarded_is_named() {
        let nft = |chain: &str, rules: &str| {
            of_nft(&format!("{{\"nftables\":[{{\"metainfo\":{{}}}},{chain}{rules}]}}"))
        };
        let chain = |hook: &str, family: &str, policy: &str| {
            format!(
                "{{\"chain\":{{\"family\":\"{family}\",\"table\":\"filter\",\"name\":\"FORWARD\",\"hook\":\"{hook}\",\"policy\":\"{policy}\"}}}}"
            )
        };
        let docker = nft(&chain("forward", "ip", "drop"), "");
        assert_eq!(docker.as_deref(), Some("chain FORWARD of table filter drops what no rule accepts"));
        let rule = |verdict: &str| {
            format!(
                ",{{\"rule\":{{\"family\":\"inet\",\"table\":\"filter\",\"chain\":\"x\",\"expr\":[{{\"match\":{{}}}},{{\"{verdict}\":null}}]}}}}"
            )
        };
        let forward = chain("forward", "inet", "accept");
        let firewalld = nft(&forward, &rule("reject"));
        assert_eq!(firewalld.as_deref(), Some("chain FORWARD of table filter has rules that drop packets"));
        assert_eq!(nft(&forward, &rule("accept")), None);
        // The usual firewall of a server: its chain for what comes to the host drops, what is forwarded passes.
        let server = forward.clone() + "," + &forward.replace("FORWARD", "x").replace("forward", "input");
        assert_eq!(nft(&server, &rule("drop")), None);
        assert_eq!(nft(&chain("input", "ip", "drop"), ""), None, "what comes to the host is no guest's");
        assert_eq!(nft(&chain("forward", "ip6", "drop"), ""), None, "guests have no IPv6");
        assert_eq!(of_nft("no JSON"), None);
        let iptables = of_iptables("-P INPUT ACCEPT\n-P FORWARD DROP\n-A FORWARD -j DOCKER\n");
        assert!(iptables.is_some_and(|words| words.contains("FORWARD")));
        assert_eq!(
            of_iptables("-P INPUT DROP\n-P FORWARD ACCEPT\n-A INPUT -j DROP\n-A FORWARD -j ACCEPT\n"),
            None
        );
        assert!(of_iptables("-P FORWARD ACCEPT\n-A USER -s 192.0.2.0/24 -j REJECT\n").is_some());
    }

    #[test]
    fn a_program_that_is_missing_or_fails_says_nothing() {
        assert_eq!(printed_by(&["tilemark-no-such-program"]), None);
        assert_eq!(printed_by(&["sh", "-c", "echo rules; exit 1"]), None);
        assert_eq!(printed_by(&["echo", "rules"]).as_deref(), Some("rules\n"));
    }
}

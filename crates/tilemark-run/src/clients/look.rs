//! What `doctor --site` and `plan --site` say about clients: reached or not, its clock, the way there, its processors and line.

use super::{Brought, ClientLine, ClientLost};
use crate::{
    failure::{Failure, FailureCode},
    job::state_folder::boot_id,
    program::Program,
};
use rustix::io::Errno;
use serde::Serialize;
use std::{fmt::Write as _, net::Ipv4Addr, thread, time::Duration};
use tilemark_guests::own_bridge;
use tilemark_site::{Client, Site};

/// An agent that is only asked is gone after so long in any case.
const LIFETIME: Duration = Duration::from_secs(300);

/// A client that was looked at.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ClientLook {
    /// Its name in the site file.
    pub name: String,
    /// Why it cannot be used; null where its agent ran there.
    pub problem: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Processors that the agent may use.
    pub processors: Option<u32>,
    /// Half of the interval that its clock's offset lies in, in milliseconds.
    pub clock_uncertainty_ms: Option<f64>,
    /// Median way there and back of its agent while nothing is sent, in milliseconds.
    pub idle_round_trip_ms: Option<f64>,
    /// Its network device towards the addresses of guests, where the site file names some.
    pub device: Option<String>,
    /// Line rate of it, in Mbit/s; null where it has none.
    pub line_mbit_per_s: Option<u32>,
    /// Why the bridge of the site file did not answer it at its own address; null where it did, or has none. A firewall of this host may be the
    /// reason, so it is no problem by itself.
    pub no_way: Option<String>,
    /// Whether it is this very machine, by the kernel's boot id.
    pub same_machine: bool,
}

/// Looks at all clients of a site at the same time. Their agents are gone afterwards.
pub fn look(program: &Program, site: &Site) -> Vec<ClientLook> {
    let towards = Towards {
        guests: site.network.as_ref().map(|network| network.first),
        bridge: site.network.as_ref().and_then(|network| own_bridge::address_of(&network.bridge)),
    };
    thread::scope(|scope| {
        let look = |client: &'_ Client| {
            let client = client.clone();
            scope.spawn(move || {
                let looked = look_at(program.agent, &client, towards);
                looked.unwrap_or_else(|why| ClientLook {
                    name: client.name.clone(),
                    problem: Some(why.0),
                    ..ClientLook::default()
                })
            })
        };
        let looking: Vec<_> = site.clients.iter().map(look).collect();
        looking.into_iter().filter_map(|looking| looking.join().ok()).collect()
    })
}

/// What clients are to reach.
#[derive(Debug, Clone, Copy)]
struct Towards {
    /// The first address of guests.
    guests: Option<Ipv4Addr>,
    /// The bridge's own address.
    bridge: Option<Ipv4Addr>,
}

/// A port that nobody listens on (discard, RFC 863): where there is a way, the host refuses.
const NOBODYS_PORT: u16 = 9;

/// Why there seems to be no way to the bridge.
fn no_way(line: &mut ClientLine, bridge: Ipv4Addr) -> Result<Option<String>, ClientLost> {
    let probed = line.probe((bridge, NOBODYS_PORT).into(), 1)?;
    // The agent says it in the words of the standard library, which end with the number.
    let refused = format!("(os error {})", Errno::CONNREFUSED.raw_os_error());
    Ok(probed.err().filter(|why| !why.ends_with(&refused)).map(|why| format!("{bridge}: {why}")))
}

fn look_at(agent: &'static [u8], client: &Client, towards: Towards) -> Result<ClientLook, ClientLost> {
    let mut line =
        ClientLine::open(client, &Brought { agent, lifetime: LIFETIME, network: None, temporary: None })?;
    let clock = line.clock()?;
    let described = line.describe(towards.guests)?;
    let no_way = towards.bridge.map_or(Ok(None), |bridge| no_way(&mut line, bridge))?;
    let half = clock.most_ns.saturating_sub(clock.least_ns) as f64 / 2e6;
    Ok(ClientLook {
        name: client.name.clone(),
        problem: None,
        kernel: Some(described.kernel),
        processors: Some(described.processors.len() as u32),
        clock_uncertainty_ms: Some(half),
        idle_round_trip_ms: Some(line.round_trip_median().as_secs_f64() * 1e3),
        line_mbit_per_s: described.device.as_ref().and_then(|device| device.mbit_per_s),
        device: described.device.map(|device| device.name),
        no_way,
        same_machine: boot_id().is_ok_and(|ours| ours.trim() == described.boot_id),
    })
}

/// A document with the clients in it.
pub fn with_clients(document: &impl Serialize, clients: &[ClientLook]) -> serde_json::Value {
    let mut document = serde_json::json!(document);
    document["clients"] = serde_json::json!(clients);
    document
}

/// As a person reads it: a line for each client.
pub fn text(clients: &[ClientLook]) -> String {
    let mut text = String::new();
    let unusable = clients.iter().filter(|client| client.problem.is_some()).count();
    let _ = writeln!(text, "{} in the site file, {} can be used.", clients.len(), clients.len() - unusable);
    for client in clients {
        let _ = writeln!(text, "  {}", line(client));
    }
    text
}

/// Clients that cannot be used: what is wrong with the first, and how many there are.
pub fn unusable(clients: &[ClientLook]) -> Option<Failure> {
    let mut unusable = clients.iter().filter_map(|client| Some((&client.name, client.problem.as_ref()?)));
    let (name, problem) = unusable.next()?;
    let others = unusable.count();
    let more = if others == 0 { String::new() } else { format!(", and {others} more") };
    Some(Failure::new(
        FailureCode::HostUnfit,
        format!("client `{name}` cannot be used{more}: {problem}"),
        "log in there by hand as the same user, with the same command",
    ))
}

fn line(client: &ClientLook) -> String {
    if let Some(problem) = &client.problem {
        return format!("{}: cannot be used: {problem}", client.name);
    }
    let mut words = vec![format!("{}: its agent ran", client.name)];
    words.extend(client.processors.map(|count| tilemark_units::counted(count, "processor")));
    words.extend(client.idle_round_trip_ms.map(|ms| format!("{ms:.2} ms there and back")));
    words.extend(client.clock_uncertainty_ms.map(|ms| format!("clock known to {ms:.3} ms")));
    words.extend(client.device.as_ref().map(|device| match client.line_mbit_per_s {
        Some(rate) => format!("{device} with {rate} Mbit/s"),
        None => format!("{device}, line rate unknown"),
    }));
    words.extend(client.no_way.as_ref().map(|why| {
        format!("no way to the bridge was found ({why}), unless a firewall of this host is the reason")
    }));
    if client.same_machine {
        words.push("it is this very machine, so it takes processors from the guests".to_owned());
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_site::ClientCarrier;

    #[test]
    fn a_bridge_that_refuses_shows_a_way_and_one_that_is_not_reached_is_named() {
        let Some(agent) = crate::test_needs::agent_of_tests() else { return };
        let carrier = ClientCarrier::Exec { command: vec!["sh".to_owned()] };
        let client = Client { name: "c1".to_owned(), carrier, address: "c1".to_owned(), user: None };
        let no_way_to = |bridge: Ipv4Addr| {
            let looked = look_at(agent, &client, Towards { guests: None, bridge: Some(bridge) });
            looked.unwrap_or_else(|lost| panic!("{lost}")).no_way
        };
        assert_eq!(no_way_to(Ipv4Addr::LOCALHOST), None);
        // No packet leaves for it.
        let why = no_way_to(Ipv4Addr::BROADCAST).expect("nobody is there");
        assert!(why.starts_with("255.255.255.255: "), "{why}");
    }

    #[test]
    fn a_client_that_cannot_be_used_is_named_with_the_reason() {
        let fit = ClientLook {
            name: "c1".into(),
            processors: Some(4),
            idle_round_trip_ms: Some(0.25),
            clock_uncertainty_ms: Some(0.1),
            device: Some("eth0".into()),
            line_mbit_per_s: Some(10_000),
            ..ClientLook::default()
        };
        let astray = ClientLook {
            name: "c3".into(),
            no_way: Some("192.0.2.1: connection timed out".into()),
            ..ClientLook::default()
        };
        assert_eq!(
            line(&astray),
            "c3: its agent ran, no way to the bridge was found (192.0.2.1: connection timed out), unless a firewall of this host is the reason"
        );
        let unfit =
            ClientLook { name: "c2".into(), problem: Some("no route".into()), ..ClientLook::default() };
        assert_eq!(
            text(&[fit, unfit]),
            "2 in the site file, 1 can be used.\n  c1: its agent ran, 4 processors, 0.25 ms there and back, clock known to 0.100 ms, \
             eth0 with 10000 Mbit/s\n  c2: cannot be used: no route\n"
        );
    }
}

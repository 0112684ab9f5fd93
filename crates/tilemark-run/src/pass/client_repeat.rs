//! Clients in one repeat: their shares, their clocks before and after, and what they themselves ran out of.

use crate::{
    clients::{
        ClientLine, ClientLost,
        reach::{Clients, end_all},
    },
    failure::{Failure, FailureCode},
    job::state_folder::boot_id,
    pass::load_figures::LoadReports,
    pass::load_jobs::client_job,
};
use std::time::{Duration, Instant};
use tilemark_agent_protocol::{ClientDescription, LoadJob, Request};
use tilemark_plan::{plan::Point, share::share_out};
use tilemark_record::{
    clients::{ClientFigures, ClockOffset},
    histogram::BadHistogram,
    summary::{Incident, IncidentKind},
};
use tilemark_sys::clock::monotonic_ns;

/// All begin at least so long after the last one is ready, and after four of the longest ways there and back.
const BEGIN_AFTER_MIN: Duration = Duration::from_secs(1);
/// And at most so long.
const BEGIN_AFTER_MAX: Duration = Duration::from_secs(20);
/// Connections of which the median is the idle round trip.
const PROBES: u32 = 5;

/// The clients that send something in one repeat.
pub(crate) struct RepeatClients<'a> {
    clients: &'a Clients,
    members: Vec<Member>,
}

/// A client in one repeat.
pub(crate) struct Member {
    /// Its place in the site file.
    place: u32,
    line: ClientLine,
    /// What it sends.
    job: LoadJob,
    before: ClientDescription,
    figures: ClientFigures,
    /// Why it reached no guest in this repeat, though it had reached one before: it sends nothing.
    unreached: Option<String>,
}

impl Clients {
    /// Shares the loads of a point out, and reads clocks and counters.
    ///
    /// # Errors
    /// When a client cannot be reached, reaches no guest and never did, or was lost twice.
    pub(crate) fn of_repeat(
        &self,
        point: &Point,
        block: u32,
        ports: &[Vec<u16>],
    ) -> Result<RepeatClients<'_>, Failure> {
        loop {
            self.reach()?;
            let mut repeat = RepeatClients { clients: self, members: Vec::new() };
            let shares = share_out(self.seed, block, point.tiles, self.count());
            let mut lost = None;
            for place in 0..self.count() {
                let tiles: Vec<u32> =
                    (1..).zip(&shares).filter(|(_, of)| **of == place).map(|(tile, _)| tile).collect();
                let Some(job) = client_job(point, block, &tiles, ports) else { continue };
                let line = self.take(place).expect("all are reached, or this has ended above");
                match Member::ready(place, line, tiles, job, point, self.has_reached_guest(place))? {
                    Ok(member) => {
                        if member.unreached.is_none() {
                            self.note_reached_guest(place);
                        }
                        repeat.members.push(member);
                    }
                    Err(why) => {
                        lost = Some((place, why));
                        break;
                    }
                }
            }
            // The others keep their lines for the next attempt.
            let Some((place, why)) = lost else { return Ok(repeat) };
            repeat.put_all_back();
            self.note_loss(place, &why.0);
        }
    }
}

impl Member {
    /// Reads all that is needed before the loads. The inner error is a client that is lost.
    fn ready(
        place: u32,
        mut line: ClientLine,
        tiles: Vec<u32>,
        mut job: LoadJob,
        point: &Point,
        has_reached_guest: bool,
    ) -> Result<Result<Self, ClientLost>, Failure> {
        let Some(target) = job.streams.first().map(|stream| stream.target) else {
            return Ok(Err(ClientLost("it has nothing to send".to_owned())));
        };
        let towards = match target.ip() {
            std::net::IpAddr::V4(address) => Some(address),
            std::net::IpAddr::V6(_) => None,
        };
        let probed = match line.probe(target, PROBES) {
            Err(lost) => return Ok(Err(lost)),
            // From the first connection on there is a way, and what is missing is a service.
            Ok(Err(why)) if !has_reached_guest => return Err(no_way(line.name(), point, target, &why)),
            Ok(probed) => probed,
        };
        let unreached = probed.as_ref().err().map(|why| unreached(line.name(), point, target, why));
        let mut read = || Ok((line.describe(towards)?, line.clock()?));
        let (before, clock) = match read() {
            Err(lost) => return Ok(Err(lost)),
            Ok(read) => read,
        };
        // One thread on each, where it may use several.
        job.processors.clone_from(&before.processors);
        let line_mbit_per_s = before.device.as_ref().and_then(|device| device.mbit_per_s);
        let figures = ClientFigures {
            name: line.name().to_owned(),
            tiles,
            processors: before.processors.len() as u32,
            same_machine: boot_id().is_ok_and(|ours| ours.trim() == before.boot_id),
            clock_before: clock,
            line_mbit_per_s: line_mbit_per_s.map(f64::from),
            idle_round_trip_ms: probed.ok().map(|time| time.as_secs_f64() * 1e3),
            ..ClientFigures::default()
        };
        Ok(Ok(Self { place, line, job, before, figures, unreached }))
    }

    /// Its place in the site file, its stream and its job.
    pub(crate) fn parts(&mut self) -> (u32, &mut ClientLine, &LoadJob, ClockOffset) {
        (self.place, &mut self.line, &self.job, self.figures.clock_before)
    }

    /// Reads its clock and counters again.
    fn read_after(&mut self, point: &Point, reports: &LoadReports) -> Result<(), ClientLost> {
        let towards = self.job.streams.first().and_then(|stream| match stream.target.ip() {
            std::net::IpAddr::V4(address) => Some(address),
            std::net::IpAddr::V6(_) => None,
        });
        let clock = self.line.clock()?;
        let after = self.line.describe(towards)?;
        let figures = &mut self.figures;
        figures.clock_after = Some(clock);
        figures.uncertainty_ms = Some(figures.clock_before.uncertainty_ms(&clock));
        if let Some((intended, actual)) = self.line.take_began() {
            (figures.intended_begin_ns, figures.actual_begin_ns) = (Some(intended), Some(actual));
        }
        let passed = after.monotonic_ns.saturating_sub(self.before.monotonic_ns);
        let all = passed as f64 * f64::from(after.online.max(1));
        let part = |ns: u64| (passed > 0).then(|| ns as f64 / all);
        figures.steal = part(after.stolen_ns.saturating_sub(self.before.stolen_ns));
        let own = after.own_ns.saturating_sub(self.before.own_ns);
        figures.other = part(after.busy_ns.saturating_sub(self.before.busy_ns).saturating_sub(own));
        if let (Some(was), Some(is)) = (&self.before.device, &after.device)
            && let Some(mbit_per_s) = figures.line_mbit_per_s
        {
            let bytes = is.received.saturating_sub(was.received).max(is.sent.saturating_sub(was.sent));
            let seconds = reports.seconds_of_client(point, &figures.tiles);
            figures.line_used = Some(8.0 * bytes as f64 / seconds / (mbit_per_s * 1e6));
        }
        Ok(())
    }
}

fn no_way(name: &str, point: &Point, target: std::net::SocketAddr, why: &str) -> Failure {
    let guest = name_of(point, target);
    Failure::new(
        FailureCode::HostUnfit,
        format!("client `{name}` does not reach {guest} at {target}: {why}"),
        "name a bridge of this host that the client's network leads to, with free addresses of it: `[network]` in the site file",
    )
}

fn unreached(name: &str, point: &Point, target: std::net::SocketAddr, why: &str) -> String {
    let guest = name_of(point, target);
    format!("client {name} did not reach {guest} at {target} in this repeat, and sent nothing: {why}")
}

fn name_of(point: &Point, target: std::net::SocketAddr) -> &str {
    let guest = point.guests.iter().find(|guest| std::net::IpAddr::V4(guest.address) == target.ip());
    guest.map_or("a guest", |guest| guest.name.as_str())
}

impl RepeatClients<'_> {
    /// Each client that sends something.
    pub(crate) fn members(&mut self) -> impl Iterator<Item = &mut Member> {
        self.members.iter_mut().filter(|member| member.unreached.is_none())
    }

    /// How long after the last one is ready all begin.
    pub(crate) fn begin_after(&self) -> Duration {
        let longest =
            self.members.iter().map(|member| member.line.round_trip_max()).max().unwrap_or_default();
        (4 * longest).clamp(BEGIN_AFTER_MIN, BEGIN_AFTER_MAX)
    }

    /// Ways to end all of them from another thread.
    pub(crate) fn enders(&self) -> Vec<Box<dyn Fn() + Send>> {
        let ender = |member: &Member| Box::new(member.line.ender()) as Box<dyn Fn() + Send>;
        self.members.iter().map(ender).collect()
    }

    /// Reads clocks and counters after the loads and makes figures; who is not there any more is an incident, but for those that
    /// are known to be lost.
    ///
    /// # Errors
    /// When a histogram does not decode.
    pub(crate) fn finish(
        mut self,
        point: &Point,
        reports: &mut LoadReports,
        known: &[u32],
    ) -> Result<(Vec<ClientFigures>, Vec<Incident>), BadHistogram> {
        let (mut figures, mut incidents, mut over) = (Vec::new(), Vec::new(), Vec::new());
        for mut member in std::mem::take(&mut self.members) {
            let after = member.read_after(point, reports);
            let mut of_client = std::mem::take(&mut member.figures);
            if let Some(sender) = reports.client_sender(member.place) {
                (of_client.workers, of_client.real_time) = (Some(sender.workers), Some(sender.real_time));
            }
            match after {
                // Its agent is well, and begins the next repeat.
                Ok(()) if member.unreached.is_some() => {
                    reports.forget_client(member.place, point, &of_client.tiles);
                    of_client.lost = member.unreached;
                    incidents.extend(of_client.lost.iter().map(|what| unproven(what.clone())));
                    self.clients.put_back(member.place, member.line);
                }
                Ok(()) if !known.contains(&member.place) => {
                    of_client.busy = reports.client_busy(member.place);
                    of_client.loads = reports.loads_of_client(point, &of_client.tiles)?;
                    self.clients.put_back(member.place, member.line);
                }
                // Its load did not end as it should: a fresh agent begins the next one.
                Ok(()) => {
                    reports.forget_client(member.place, point, &of_client.tiles);
                    let why = "its load did not end as it should".to_owned();
                    self.clients.note_loss(member.place, &why);
                    over.push(member.line);
                    of_client.lost = Some(why);
                }
                Err(ClientLost(why)) => {
                    reports.forget_client(member.place, point, &of_client.tiles);
                    self.clients.note_loss(member.place, &why);
                    over.push(member.line);
                    if !known.contains(&member.place) {
                        incidents.push(unproven(lost(&of_client.name, &why)));
                    }
                    of_client.lost = Some(why);
                }
            }
            figures.push(of_client);
        }
        end_all(over);
        Ok((figures, incidents))
    }

    fn put_all_back(&mut self) {
        for member in std::mem::take(&mut self.members) {
            self.clients.put_back(member.place, member.line);
        }
    }
}

impl Drop for RepeatClients<'_> {
    fn drop(&mut self) {
        end_all(std::mem::take(&mut self.members).into_iter().map(|member| member.line).collect());
    }
}

fn unproven(what: String) -> Incident {
    Incident { kind: IncidentKind::Unproven, what, guest: None }
}

/// The words of a client that was lost.
pub(crate) fn lost(name: &str, why: &str) -> String {
    format!("client {name} was lost: {why}")
}

/// When a moment of this host is by a clock with this offset: its middle is as wrong as its uncertainty says at most.
pub(crate) fn by_clock(at: Instant, offset: ClockOffset) -> u64 {
    let now = Instant::now();
    let now_ns = i128::from(monotonic_ns());
    let until = at.saturating_duration_since(now).as_nanos() as i128;
    let since = now.saturating_duration_since(at).as_nanos() as i128;
    let ours = now_ns + until - since;
    u64::try_from(ours + i128::from(offset.middle_ns())).unwrap_or(0)
}

/// Has a client's prepared load begin at a moment.
pub(crate) fn begin_at(line: &ClientLine, at: Instant, offset: ClockOffset) {
    // One that does not hear it is found to be gone when it is listened to.
    let _ = line.send(&Request::BeginLoadAt(by_clock(at, offset)));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{
        clients::Brought,
        fakes::{TILE, ladder, plan_of},
        test_needs::agent_of_tests,
    };
    use std::net::{Ipv4Addr, TcpListener};
    use tilemark_site::{Client, ClientCarrier};

    fn clients(agent: &'static [u8]) -> Clients {
        let lifetime = Duration::from_secs(600);
        let brought = Brought { agent, lifetime, network: None, temporary: None };
        let carrier = ClientCarrier::Exec { command: vec!["sh".to_owned()] };
        let client = Client { name: "c1".to_owned(), carrier, address: "c1".to_owned(), user: None };
        Clients::of(vec![client], brought, 1, lifetime)
    }

    /// A point whose web load comes from clients, and whose guest is this machine.
    fn point_here(guest: Ipv4Addr) -> Point {
        let mut point = plan_of(TILE, &ladder()).points.swap_remove(0);
        point.loads.iter_mut().for_each(|load| load.from_clients = true);
        point.guests.iter_mut().for_each(|each| each.address = guest);
        point
    }

    /// Ends a service at once: a process that another test starts at this moment may hold its socket a little longer.
    fn end(listener: Option<TcpListener>) {
        if let Some(listener) = listener {
            rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        }
    }

    #[test]
    fn a_service_that_ends_before_a_repeat_costs_that_repeat_and_no_client() {
        let Some(agent) = agent_of_tests() else { return };
        // An address of this process only: nobody takes the port while nothing listens on it.
        let [.., high, low] = std::process::id().to_be_bytes();
        let guest = Ipv4Addr::new(127, 83, high, low);
        let (clients, point) = (clients(agent), point_here(guest));
        let mut listener = Some(TcpListener::bind((guest, 0)).unwrap());
        let address = listener.as_ref().unwrap().local_addr().unwrap();
        let ports = vec![vec![address.port(); 4]; point.guests.len()];
        // Four times: a client that was lost twice would end the run.
        for is_there in [true, false, false, false, true] {
            if !is_there {
                end(listener.take());
            } else if listener.is_none() {
                listener = Some(TcpListener::bind(address).unwrap());
            }
            let mut repeat = clients.of_repeat(&point, 1, &ports).unwrap();
            assert_eq!(repeat.members().count(), usize::from(is_there), "who sends");
            let (figures, incidents) = repeat.finish(&point, &mut LoadReports::default(), &[]).unwrap();
            assert_eq!(figures[0].idle_round_trip_ms.is_some(), is_there);
            if is_there {
                assert_eq!((incidents, &figures[0].lost), (Vec::new(), &None));
                continue;
            }
            let [Incident { kind: IncidentKind::Unproven, what, guest: None }] = &incidents[..] else {
                panic!("{incidents:?}")
            };
            assert!(what.starts_with("client c1 did not reach ") && what.contains("refused"), "{what}");
            assert_eq!(figures[0].lost.as_ref(), Some(what));
        }
    }

    #[test]
    fn a_client_that_never_reached_a_guest_has_no_way_to_them() {
        let Some(agent) = agent_of_tests() else { return };
        let (clients, point) = (clients(agent), point_here(Ipv4Addr::LOCALHOST));
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let ports = vec![vec![port; 4]; point.guests.len()];
        let Err(failure) = clients.of_repeat(&point, 1, &ports) else { panic!("there is a way") };
        assert_eq!(failure.code, FailureCode::HostUnfit);
        assert!(failure.message.contains("client `c1` does not reach "), "{failure:?}");
    }
}

//! All clients of a run: reached before anything is measured, and again when one was lost. Never fewer than the site file has.

use super::{Brought, ClientLine, ClientLost};
use crate::failure::{Failure, FailureCode};
use std::{
    cell::RefCell,
    thread,
    time::{Duration, Instant},
};
use tilemark_plan::{expect::time_of, plan::Plan};
use tilemark_site::Client;
use tilemark_units::Span;

/// A client that was lost so often ends the run: it would be lost again.
const LOSSES_MAX: u32 = 2;

/// The clients of a run.
pub(crate) struct Clients {
    sites: Vec<Client>,
    /// Carriers are started in the host's network: the run has one of its own, from which nobody is reached.
    brought: Brought,
    pub(crate) seed: u64,
    /// An agent that is as old begins no further repeat: it could end by itself within it.
    too_old: Duration,
    slots: RefCell<Vec<Slot>>,
}

/// One client.
#[derive(Default)]
struct Slot {
    line: Option<ClientLine>,
    /// When its agent was brought.
    since: Option<Instant>,
    losses: u32,
    why: String,
    /// Whether it has reached a guest in this run: then there is a way to them.
    has_reached_guest: bool,
}

impl Slot {
    /// How old its agent is. One whose life is shorter than was wanted, as a partition of Slurm's has a limit, is older by what it lacks.
    fn age(&self, wanted: Duration) -> Option<Duration> {
        let lifetime = self.line.as_ref().and_then(ClientLine::lifetime).unwrap_or(wanted);
        Some(self.since?.elapsed() + wanted.saturating_sub(lifetime))
    }
}

/// No agent lives longer.
const LIFETIME_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// What an agent lives beyond the end of its plan.
const SPARE: Duration = Duration::from_secs(600);
/// The same where nobody knows when a search ends.
const SPARE_OF_SEARCH: Duration = Duration::from_secs(3600);

/// How long an agent may live in a run of this plan: its repeats, as many again that are discarded, and after each repeat that was disturbed
/// the wait for a quiet host. A search has more repeats than its plan has at first. It ends long before by itself when its host is gone.
pub(crate) fn lifetime(plan: &Plan, wait_quiet: Option<Span>) -> Duration {
    let expected = plan.expected.time.get();
    let shortest =
        plan.points.iter().map(|point| point.measure.warmup.get() + point.measure.length.get()).min();
    let in_time = shortest.map_or(0, |shortest| expected.as_secs() / shortest.as_secs().max(1));
    let of_search = plan.search.as_ref().map_or(0, |_| u32::try_from(in_time).unwrap_or(u32::MAX));
    let repeats = of_search.max(plan.passes.len() as u32).max(1);
    let waits = wait_quiet.map_or(Duration::ZERO, |each| each.get().saturating_mul(repeats));
    let (times, spare) = if plan.search.is_some() { (3, SPARE_OF_SEARCH) } else { (2, SPARE) };
    // A scheduler may refuse a job that asks for much more: waits are counted once.
    expected.saturating_mul(times).saturating_add(waits).saturating_add(spare).min(LIFETIME_MAX)
}

/// From which age on an agent with this lifetime begins no further repeat of a plan.
pub(crate) fn too_old(plan: &Plan, lifetime: Duration) -> Duration {
    let longest = plan.points.iter().map(time_of).max().unwrap_or_default();
    // At least so that not every repeat has one of its own.
    lifetime.saturating_sub(longest + SPARE / 2).max(lifetime / 2)
}

impl Clients {
    /// Those of a site file. Nobody is reached yet.
    pub(crate) fn of(sites: Vec<Client>, brought: Brought, seed: u64, too_old: Duration) -> Self {
        let slots = RefCell::new(sites.iter().map(|_| Slot::default()).collect());
        Self { sites, brought, seed, too_old, slots }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.sites.len() as u32
    }

    /// Reaches all that are not reached, at the same time. An agent that is too old gets a successor, and no loss is counted.
    ///
    /// # Errors
    /// When one cannot be reached, or was lost twice; the message names it.
    pub(crate) fn reach(&self) -> Result<(), Failure> {
        let mut slots = self.slots.borrow_mut();
        let lost_twice = slots.iter().zip(&self.sites).find(|(slot, _)| slot.losses >= LOSSES_MAX);
        if let Some((slot, client)) = lost_twice {
            return Err(lost_for_good(&client.name, &slot.why));
        }
        let is_too_old =
            |slot: &&mut Slot| slot.age(self.brought.lifetime).is_some_and(|age| age >= self.too_old);
        end_all(slots.iter_mut().filter(is_too_old).filter_map(|slot| slot.line.take()).collect());
        let brought = &self.brought;
        let lines: Vec<Option<Result<ClientLine, ClientLost>>> = thread::scope(|scope| {
            let open = |(slot, client): (&Slot, &Client)| {
                let client = client.clone();
                slot.line.is_none().then(|| scope.spawn(move || ClientLine::open(&client, brought)))
            };
            // Each is started before the first is waited for.
            let opening: Vec<_> = slots.iter().zip(&self.sites).map(open).collect();
            // A panic must not look like a client that is reached already.
            let joined = |opening: thread::ScopedJoinHandle<'_, _>| {
                opening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            opening.into_iter().map(|opening| opening.map(joined)).collect()
        });
        for ((slot, client), line) in slots.iter_mut().zip(&self.sites).zip(lines) {
            match line {
                None => {}
                Some(Ok(line)) => (slot.line, slot.since) = (Some(line), Some(Instant::now())),
                Some(Err(why)) => return Err(not_reached(&client.name, &why)),
            }
        }
        Ok(())
    }

    /// Takes a client's line for a repeat; nothing where it is not reached.
    pub(crate) fn take(&self, place: u32) -> Option<ClientLine> {
        self.slots.borrow_mut()[place as usize].line.take()
    }

    /// Returns it.
    pub(crate) fn put_back(&self, place: u32, line: ClientLine) {
        self.slots.borrow_mut()[place as usize].line = Some(line);
    }

    /// Whether this one has reached a guest in this run.
    pub(crate) fn has_reached_guest(&self, place: u32) -> bool {
        self.slots.borrow()[place as usize].has_reached_guest
    }

    /// Notes that it has.
    pub(crate) fn note_reached_guest(&self, place: u32) {
        self.slots.borrow_mut()[place as usize].has_reached_guest = true;
    }

    /// Notes that one was lost.
    pub(crate) fn note_loss(&self, place: u32, why: &str) {
        let slot = &mut self.slots.borrow_mut()[place as usize];
        slot.losses += 1;
        why.clone_into(&mut slot.why);
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        end_all(self.slots.get_mut().iter_mut().filter_map(|slot| slot.line.take()).collect());
    }
}

/// Ends clients at the same time: each whose network is cut takes seconds until it is given up.
pub(crate) fn end_all(lines: Vec<ClientLine>) {
    thread::scope(|scope| {
        for line in lines {
            // Where no thread can be started, it is ended here.
            let _ = thread::Builder::new().spawn_scoped(scope, move || drop(line));
        }
    });
}

fn not_reached(name: &str, why: &ClientLost) -> Failure {
    Failure::new(
        FailureCode::HostUnfit,
        format!("client `{name}` cannot be used: {why}"),
        "log in there by hand as the same user, with the same command; `tilemark doctor --site FILE` looks at all clients",
    )
}

fn lost_for_good(name: &str, why: &str) -> Failure {
    Failure::new(
        FailureCode::HostUnfit,
        format!("client `{name}` was lost twice: {why}"),
        "fix that machine or the way to it, or take it out of the site file; the repeats before it are kept",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{TILE, ladder, plan_of, search};

    #[test]
    fn an_agent_outlives_every_wait_for_a_quiet_host() {
        let plan = plan_of(TILE, &ladder());
        let wait = Span::from_seconds(600);
        let without = lifetime(&plan, None);
        let with = lifetime(&plan, Some(wait));
        assert!(with >= without + wait.get() * plan.passes.len() as u32, "{with:?}");
        // Not more often: a scheduler has limits.
        assert!(with < without + wait.get() * (plan.passes.len() as u32 + 1), "{with:?}");
        assert_eq!(lifetime(&plan, Some(Span::from_seconds(u64::from(u32::MAX)))), LIFETIME_MAX);
    }

    #[test]
    fn an_agent_ends_soon_after_its_plan_where_the_end_of_that_is_known() {
        let plan = plan_of(TILE, &ladder());
        let expected = plan.expected.time.get();
        let known = lifetime(&plan, None);
        assert_eq!(known, 2 * expected + SPARE, "each repeat, once more, and ten minutes");
        let plan = plan_of(TILE, &search(None));
        assert_eq!(lifetime(&plan, None), 3 * plan.expected.time.get() + SPARE_OF_SEARCH);
        // What is left of it is enough for the longest repeat, and more than one repeat has the same agent.
        for plan in [&plan, &plan_of(TILE, &ladder())] {
            let (lifetime, longest) = (lifetime(plan, None), plan.points.iter().map(time_of).max().unwrap());
            let too_old = too_old(plan, lifetime);
            assert!(lifetime - too_old > longest && too_old > longest, "{too_old:?} of {lifetime:?}");
        }
    }

    #[test]
    fn an_agent_that_is_too_old_for_another_repeat_has_a_successor_and_counts_as_no_loss() {
        let Some(agent) = crate::test_needs::agent_of_tests() else { return };
        let folder = tempfile::tempdir().unwrap();
        let begun = folder.path().join("begun");
        let command = ["sh".to_owned(), "-c".to_owned(), format!("echo >>{}; exec sh", begun.display())];
        let client = Client {
            name: "c1".to_owned(),
            carrier: tilemark_site::ClientCarrier::Exec { command: command.into() },
            address: "c1".to_owned(),
            user: None,
        };
        for (too_old, agents) in [(Duration::from_secs(600), 1), (Duration::ZERO, 4)] {
            let _ = std::fs::remove_file(&begun);
            let brought =
                Brought { agent, lifetime: Duration::from_secs(600), network: None, temporary: None };
            let clients = Clients::of(vec![client.clone()], brought, 1, too_old);
            for _ in 0..4 {
                clients.reach().unwrap();
            }
            assert_eq!(std::fs::read_to_string(&begun).unwrap().lines().count(), agents);
        }
    }
}

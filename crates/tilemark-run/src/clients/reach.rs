//! All clients of a run: reached before anything is measured, and again when one was lost. Never fewer than the site file has.

use super::{Brought, ClientLine, ClientLost};
use crate::failure::{Failure, FailureCode};
use std::{cell::RefCell, thread, time::Duration};
use tilemark_plan::plan::Plan;
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
    slots: RefCell<Vec<Slot>>,
}

/// One client.
#[derive(Default)]
struct Slot {
    line: Option<ClientLine>,
    losses: u32,
    why: String,
}

/// No agent lives longer.
const LIFETIME_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// How long an agent may live in a run of this plan: repeats that are discarded are measured again, a search may take longer, and after
/// each repeat that was disturbed a run may wait so long for a quiet host. It ends long before by itself when its host is gone.
pub(crate) fn lifetime(plan: &Plan, wait_quiet: Option<Span>) -> Duration {
    let expected = plan.expected.time.get();
    let shortest =
        plan.points.iter().map(|point| point.measure.warmup.get() + point.measure.length.get()).min();
    // A search has more repeats than its plan has at first.
    let in_time = shortest.map_or(0, |shortest| expected.as_secs() / shortest.as_secs().max(1));
    let of_search = plan.search.as_ref().map_or(0, |_| u32::try_from(in_time).unwrap_or(u32::MAX));
    let repeats = of_search.max(plan.passes.len() as u32).max(1);
    let waits = wait_quiet.map_or(Duration::ZERO, |each| each.get().saturating_mul(repeats));
    // A scheduler may refuse a job that asks for much more: waits are counted once.
    let all = expected.saturating_mul(3).saturating_add(waits);
    all.saturating_add(Duration::from_secs(3600)).min(LIFETIME_MAX)
}

impl Clients {
    /// Those of a site file. Nobody is reached yet.
    pub(crate) fn of(sites: Vec<Client>, brought: Brought, seed: u64) -> Self {
        let slots = RefCell::new(sites.iter().map(|_| Slot::default()).collect());
        Self { sites, brought, seed, slots }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.sites.len() as u32
    }

    /// Reaches all that are not reached, at the same time.
    ///
    /// # Errors
    /// When one cannot be reached, or was lost twice; the message names it.
    pub(crate) fn reach(&self) -> Result<(), Failure> {
        let mut slots = self.slots.borrow_mut();
        let lost_twice = slots.iter().zip(&self.sites).find(|(slot, _)| slot.losses >= LOSSES_MAX);
        if let Some((slot, client)) = lost_twice {
            return Err(lost_for_good(&client.name, &slot.why));
        }
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
                Some(Ok(line)) => slot.line = Some(line),
                Some(Err(why)) => return Err(not_reached(&client.name, &why)),
            }
        }
        Ok(())
    }

    /// Takes a client's line for a repeat; nothing where it is not reached.
    pub(crate) fn take(&self, place: u32) -> Option<ClientLine> {
        self.slots.borrow_mut()[place as usize].line.take()
    }

    /// Gives it back.
    pub(crate) fn give_back(&self, place: u32, line: ClientLine) {
        self.slots.borrow_mut()[place as usize].line = Some(line);
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
    use crate::fakes::{TILE, ladder, plan_of};

    #[test]
    fn an_agent_outlives_every_wait_for_a_quiet_host() {
        let plan = plan_of(TILE, &ladder());
        let wait = Span::from_seconds(600);
        let without = lifetime(&plan, None);
        assert!(without >= 3 * plan.expected.time.get(), "{without:?}");
        let with = lifetime(&plan, Some(wait));
        assert!(with >= without + wait.get() * plan.passes.len() as u32, "{with:?}");
        // Not three times as often: a scheduler has limits.
        assert!(with < without + wait.get() * (plan.passes.len() as u32 + 1), "{with:?}");
        assert_eq!(lifetime(&plan, Some(Span::from_seconds(u64::from(u32::MAX)))), LIFETIME_MAX);
    }
}

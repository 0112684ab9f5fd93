//! All clients of a run: reached before anything is measured, and again when one was lost. Never fewer than the site file has.

use super::{Brought, ClientLine, ClientLost};
use crate::failure::{Failure, FailureCode};
use std::{cell::RefCell, thread, time::Duration};
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

/// How long an agent may live in a run that is expected to take so long: repeats that are discarded are measured again, and a search
/// may take longer. It ends long before by itself when its host is gone.
pub(crate) fn lifetime(expected: Span) -> Duration {
    3 * expected.get() + Duration::from_secs(3600)
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

//! What each guest of a tile needs, by itself and of the others.

use crate::{
    problem::Say,
    scenario::{BrokerService, Guest, Role, Scenario},
};
use tilemark_units::Bytes;

/// RabbitMQ's runtime and Broker-J's Java need this beside their messages.
const FOREIGN_MEMORY: Bytes = Bytes::from_mib(512);

pub(super) fn check_size(scenario: &Scenario, say: &mut Say<'_>) {
    for guest in &scenario.guest {
        if guest.vcpus == 0 {
            say(format!("guest `{}` has no processor", guest.name), "write `vcpus = 1` or more");
        }
        if guest.memory.as_mib() < 64.0 {
            let memory = guest.memory;
            say(format!("guest `{}` has {memory} of memory", guest.name), "give it 64MiB or more");
        }
        check_broker_memory(guest, say);
    }
}

/// Reports a guest that is too small for its broker, loaded or not.
fn check_broker_memory(guest: &Guest, say: &mut Say<'_>) {
    let is_foreign = guest.serves(Role::Broker) && guest.broker != BrokerService::Reference;
    if is_foreign && guest.memory < FOREIGN_MEMORY {
        let Guest { name, memory, broker, .. } = guest;
        let remedy = format!("write `--set guest.{name}.memory=1GiB`; {FOREIGN_MEMORY} is the least");
        let broker = broker.name();
        say(format!("guest `{name}` has {memory} of memory, and {broker} needs {FOREIGN_MEMORY}"), &remedy);
    }
}

/// Whether guests that ask others are answered.
pub(super) fn check_asks(scenario: &Scenario, say: &mut Say<'_>) {
    for (guest, asked) in scenario.guest.iter().filter_map(|guest| Some((guest, guest.asks.as_ref()?))) {
        check_asked(scenario, guest, asked, say);
    }
}

/// Whether the guest that a guest asks can answer.
fn check_asked(scenario: &Scenario, guest: &Guest, asked: &str, say: &mut Say<'_>) {
    let (name, role) = (&guest.name, guest.said_roles());
    if !guest.serves(Role::Web) {
        let message = format!("guest `{name}` with role {role} asks guest `{asked}`");
        say(message, "leave out `asks`, or make its role `web`: only a web server's pages ask a back end");
    }
    match scenario.guest.iter().find(|guest| guest.name == asked) {
        None => say(
            format!("guest `{name}` asks guest `{asked}`, which the tile does not have"),
            "name a guest with role `backend`",
        ),
        Some(other) if !other.serves(Role::Backend) => {
            let message =
                format!("guest `{name}` asks guest `{asked}`, whose role is {}", other.said_roles());
            say(message, "name a guest with role `backend`");
        }
        Some(_) => {}
    }
}

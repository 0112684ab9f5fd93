//! What the broker promises, as clients see it.

mod connections;
mod dead_letters;
mod delivery;
mod exceptions;
mod expiry;
mod journal;
mod pressure;
mod routing;
mod storm;
mod topology;
mod work;

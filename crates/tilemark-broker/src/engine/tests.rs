//! What the broker promises, as clients see it.

mod conduct;
mod delivery;
mod exceptions;
mod journal;
mod pressure;
mod storm;
mod topology;

//! The messaging loads as work of a load process: several brokers are loaded at the same time, their figures become events.

mod account;
mod perform;
mod stage;

pub(super) use perform::perform;

//! `messaging`: several brokers are loaded at the same time, their figures become events.

mod account;
mod run;
mod stage;

pub(crate) use run::run_job;

//! The service of this guest: one at a time, started once. What it is made of stands in `tilemark-workloads`.

mod broker;
mod database;
mod running;
mod site;
mod wait;
mod web;

pub(crate) use running::Services;

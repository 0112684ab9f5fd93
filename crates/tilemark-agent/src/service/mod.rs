//! The services of this guest, each started once, in order. What it is made of is in `tilemark-workloads`.

mod broker;
mod certificate;
mod database;
mod pages;
mod program;
mod running;
mod site;
mod started;
mod wait;
mod web;

pub(crate) use running::Services;

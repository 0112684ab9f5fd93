//! The judge, rule by rule. Each test changes one thing of an undisturbed run and says what must follow.

#![allow(clippy::unwrap_used, reason = "a test file: helpers may unwrap as tests do")]

mod answers;
mod clients;
mod command;
mod cost;
mod hooks;
mod interference;
mod roles;
mod run;
mod scaling;
mod screening;
mod sides;
mod surge;
mod truth;
mod validity;

//! One module per workload: its service, its load and what a right answer is.
//!
//! | workload | service | load | a right answer |
//! |---|---|---|---|
//! | [`web`] | nginx | GET over kept-alive connections, from outside | status 200 and every byte of the body |
//! | [`disk`] | none | fio on the data disks, from inside | the kernel completed the request |
//! | [`idle`] | none | none | |

pub mod disk;
mod error;
pub mod idle;
pub mod web;

pub use error::WorkloadError;

//! The guests of a point: what they serve, how they are cloned, booted or made as twins, and the memory that they take.

mod credentials;
pub(crate) mod database_disks;
pub(crate) mod memory;
pub(crate) mod services;
pub(crate) mod start;

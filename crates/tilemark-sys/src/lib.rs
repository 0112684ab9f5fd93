//! The only unsafe code: namespaces, pre-exec steps and the accelerator probe's ioctls.

pub mod kvm;
pub mod namespace;
pub mod process;

//! The only unsafe code: namespaces, pre-exec steps and the accelerator probe's ioctls. Files that must be safe from others too.

pub mod answer;
pub mod below;
pub mod block;
pub mod bpf;
pub mod clock;
pub mod descriptor;
pub mod entropy;
pub mod file_mark;
pub mod files;
pub mod kvm;
pub mod limits;
pub mod memory;
pub mod mounts;
pub mod namespace;
pub mod nic;
pub mod numa;
pub mod nvme;
pub mod packet;
pub mod passwords;
pub mod peer;
pub mod process;
pub mod tap;
pub mod text_file;
pub mod thread;
pub mod users;
pub mod walls;

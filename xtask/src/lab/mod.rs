//! The lab: an emulated server with two sockets, two NUMA nodes, an IOMMU and KVM, on any machine, in which a command of
//! ours meets what this machine does not have. What happens there is real; how long it takes means nothing.
//!
//! ```text
//! xtask ──starts──> QEMU (TCG), which dies with it: kernel, agent as process 1, the lab's image
//!   ├── agent's port:         set up, run the command, its exit code
//!   ├── output, error ports:  what the command prints, as it prints it
//!   └── disks in memory:      the image cache and the program, read-only
//! ```
//! Nothing of a lab is a file of the host's, but for the QEMU in `target/lab-qemu`: there is nothing to take away when all of this is killed.

mod machine;
mod materials;
mod qemu;
mod server;
mod session;
mod stream;

pub(crate) use materials::{GUEST_IMAGE, LAB_IMAGE as IMAGE, build_program, image};
pub(crate) use qemu::find as find_qemu;
pub(crate) use session::run;

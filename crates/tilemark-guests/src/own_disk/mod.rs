//! Guests that boot from a disk of the user's own.
//!
//! ```text
//! the user's file, read-only <- overlay: an empty qcow2, gone with the guest   -> the disk that the firmware boots
//! seed: a small FAT disk, `cidata`                                             -> cloud-init: address, name, and to start the agent
//! agent: its program, sector after sector                                      -> copied to memory and started as a process
//! ```

mod fat;
mod overlay;
mod seed;

pub(crate) use overlay::Overlay;
pub(crate) use seed::seed_disk;

/// By which serial number a guest finds the disk that cloud-init reads.
pub(crate) const SEED_SERIAL: &str = "tilemark-seed";
/// By which serial number a guest finds the agent.
pub(crate) const AGENT_SERIAL: &str = "tilemark-agent";

/// QEMU takes whole sectors, and most kernels read pages.
const BLOCK: usize = 4096;

/// The agent's program as a disk: it ends in zeros, which no program minds.
pub(crate) fn agent_disk(program: &[u8]) -> Vec<u8> {
    let mut bytes = program.to_vec();
    bytes.resize(program.len().next_multiple_of(BLOCK), 0);
    bytes
}

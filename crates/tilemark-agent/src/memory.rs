//! Writing memory, so that a clone stops sharing it with its template.
//!
//! The memory goes back to the guest's own kernel at once, so that the service has as much of it as in a guest that booted. The
//! host's side of it stays: guests have no balloon and report no free pages, so a page that was once written belongs to this
//! guest's process until the guest ends, whatever the guest's kernel does with it afterwards.

use crate::{error::AgentError, error::step};
use tilemark_sys::memory::available_bytes;
use tilemark_units::Bytes;

const PAGE_BYTES: usize = 4096;
/// Left to the guest beside what is written: its kernel would end its service for less.
const KEPT_FREE: u64 = 16 << 20;

/// Writes into every page of so much memory, and gives it back to the guest's kernel.
///
/// # Errors
/// Where the guest has not so much to spare; nothing is written then.
pub(crate) fn touch(size: Bytes) -> Result<(), AgentError> {
    let available = available_bytes().unwrap_or(0);
    if size.get() > available.saturating_sub(KEPT_FREE) {
        return Err(AgentError::NoMemory { wanted: size, available: Bytes::new(available) });
    }
    let length =
        usize::try_from(size.get()).map_err(|_| AgentError::Refused("so much memory has no address"))?;
    let mut nonce = [0; 8];
    rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())
        .map_err(step("draw what to write"))?;
    let mut memory: Vec<u8> = Vec::new();
    memory.try_reserve_exact(length).map_err(|_| AgentError::Refused("so much memory has no address"))?;
    memory.resize(length, 0);
    // No page is like another one, here or in another guest: a host that looks for equal pages must not share them again.
    for (number, page) in (0_u64..).zip(memory.chunks_exact_mut(PAGE_BYTES)) {
        page[..8].copy_from_slice(&nonce);
        page[8..16].copy_from_slice(&number.to_ne_bytes());
    }
    std::hint::black_box(&memory);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_to_spare_is_refused_with_both_figures() {
        let all = available_bytes().unwrap();
        let error = touch(Bytes::new(all)).unwrap_err();
        assert!(matches!(error, AgentError::NoMemory { wanted, .. } if wanted.get() == all), "{error}");
        assert!(error.remedy().contains("working_set"), "{}", error.remedy());
        touch(Bytes::from_mib(1)).unwrap();
    }
}

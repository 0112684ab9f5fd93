//! Writing memory, so that a clone stops sharing it with its template.

use crate::error::AgentError;
use tilemark_units::Bytes;

const PAGE_BYTES: usize = 4096;

/// Writes a value of its own into every page of so much memory, then gives it back to the kernel, which has
/// written pages from then on.
pub(crate) fn touch(size: Bytes) -> Result<(), AgentError> {
    let length =
        usize::try_from(size.get()).map_err(|_| AgentError::Refused("so much memory has no address"))?;
    let mut memory: Vec<u8> = Vec::new();
    memory.try_reserve_exact(length).map_err(|_| AgentError::Refused("the guest has not so much memory"))?;
    memory.resize(length, 0x5a);
    for (number, page) in memory.chunks_mut(PAGE_BYTES).enumerate() {
        page[0] = u8::try_from(number % 251).expect("below 251");
    }
    std::hint::black_box(&memory);
    Ok(())
}

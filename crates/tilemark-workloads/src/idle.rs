//! A guest that does nothing: it has no service and no load, and shows what a guest costs by itself.

/// The port that an idle guest serves: none.
pub const PORT: u16 = 0;

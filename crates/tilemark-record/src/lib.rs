//! The run directory: its formats, their versions, and how they are written without ever being
//! half-written. It knows nothing of drawing and nothing of how figures were measured.

pub mod result;
pub mod summary;

//! The run directory: its formats, versions and how they are written without ever being half-written.

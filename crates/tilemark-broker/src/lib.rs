//! The reference broker: so small that a run measures the host and not the broker.

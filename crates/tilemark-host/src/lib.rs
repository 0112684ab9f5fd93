//! Reads what a host is, probes its accelerators, watches it while it is loaded.

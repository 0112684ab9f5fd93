//! From a record to what a person reads: HTML, terminal and CSV.

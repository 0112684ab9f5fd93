//! One module per workload: its service, its load and what a right answer is.

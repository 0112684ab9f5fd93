//! The load engine: schedules, senders and histograms. It does not know which workload it sends.

//! The messaging loads: publishers and subscribers that account for every message.

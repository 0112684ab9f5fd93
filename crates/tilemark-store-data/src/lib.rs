//! Seeded, parallel data for the online store.

//! Builds and caches the read-only guest image, and clones data disks.

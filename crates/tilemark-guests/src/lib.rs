//! Backends: how guests exist (kvm, emulated, native), templates, clones and the run network.

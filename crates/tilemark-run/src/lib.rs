//! The pipeline, the keeper, order and clean-up: the only crate that sees host, guests and load together.

//! Bytes, rates, durations and fractions as types that know their unit.

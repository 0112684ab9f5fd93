#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tilemark_fuzz::fleet_archive(bytes));

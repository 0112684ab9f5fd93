//! What a test needs of this machine, and what becomes of a test that lacks it.

/// Says why a test cannot run here.
///
/// # Panics
/// In CI (`TILEMARK_CI=1`): there nothing may be missing.
#[track_caller]
pub fn skipped(why: &str) {
    println!("skipped: {why}");
    assert!(std::env::var_os("TILEMARK_CI").is_none_or(|value| value != "1"), "skipped in CI: {why}");
}

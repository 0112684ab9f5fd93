//! What a test needs of this machine, and what becomes of a test that lacks it.

/// Says why a test cannot be; in CI that is a failure.
#[track_caller]
pub(crate) fn skipped(why: &str) {
    println!("skipped: {why}");
    assert!(std::env::var_os("TILEMARK_CI").is_none_or(|value| value != "1"), "skipped in CI: {why}");
}

/// The agent of this workspace; nothing where it was not built.
pub(crate) fn agent_of_tests() -> Option<&'static [u8]> {
    let Some(path) = std::env::var_os("TILEMARK_TEST_AGENT") else {
        skipped("set TILEMARK_TEST_AGENT to the statically linked agent");
        return None;
    };
    Some(std::fs::read(path).expect("it was built").leak())
}

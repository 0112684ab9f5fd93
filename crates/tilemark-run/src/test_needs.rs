//! What tests need of this workspace.

use tilemark_fixtures::skipped;

/// The agent of this workspace; nothing where it was not built.
pub(crate) fn agent_of_tests() -> Option<&'static [u8]> {
    let Some(path) = std::env::var_os("TILEMARK_TEST_AGENT") else {
        skipped("set TILEMARK_TEST_AGENT to the statically linked agent");
        return None;
    };
    Some(std::fs::read(path).expect("it was built").leak())
}

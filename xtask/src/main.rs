//! Every developer command.
fn main() {}

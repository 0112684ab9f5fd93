//! Every developer command: `cargo xtask ci` is the whole CI, the same on a laptop.

mod ci;
mod schema;
mod walls;

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

const USAGE: &str = "usage: cargo xtask ci | schema | walls
  ci      format, lints, walls, schemas, build, image, tests of all layers, documents; tells every failure
  schema  write docs/schema anew from the types
  walls   check which crate depends on which";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["ci"] => ci::run(),
        ["schema"] => schema::write(),
        ["walls"] => walls::check(),
        _ => bail!("{USAGE}"),
    }
}

/// The workspace's folder.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace").to_owned()
}

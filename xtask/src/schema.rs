//! The JSON Schemas of what Tilemark reads and writes, made from the types.

use crate::cargo::workspace;
use anyhow::{Result, bail};
use schemars::{Schema, schema_for};
use std::{fs, path::PathBuf};

fn schemas() -> [(&'static str, Schema); 5] {
    [
        ("scenario.json", schema_for!(tilemark_plan::scenario::Scenario)),
        ("plan.json", schema_for!(tilemark_plan::plan::Plan)),
        ("facts.json", schema_for!(tilemark_plan::facts::HostFacts)),
        ("summary.json", schema_for!(tilemark_record::summary::RepeatSummary)),
        ("result.json", schema_for!(tilemark_record::result::RunResult)),
    ]
}

fn text(schema: &Schema) -> Result<String> {
    Ok(serde_json::to_string_pretty(schema)? + "\n")
}

fn path(name: &str) -> PathBuf {
    workspace().join("docs/schema").join(name)
}

/// Writes them again.
pub(crate) fn write() -> Result<()> {
    fs::create_dir_all(path(""))?;
    for (name, schema) in schemas() {
        fs::write(path(name), text(&schema)?)?;
    }
    Ok(())
}

/// Fails where a written one is not what the types say.
pub(crate) fn check_fresh() -> Result<()> {
    for (name, schema) in schemas() {
        if fs::read_to_string(path(name)).ok() != Some(text(&schema)?) {
            bail!("docs/schema/{name} is not what the types say: run `cargo xtask schema` and commit it");
        }
    }
    Ok(())
}

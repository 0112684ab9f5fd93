//! Fetches the extra files of a specification, by the helper that comes with apt: it knows the host's proxies and
//! certificates, and refuses a file of another hash.

use std::fs;
use std::path::Path;

use crate::command::Tool;
use crate::progress::{Progress, Step};
use crate::spec::{ExtraFile, ImageSpec};
use crate::tree::Tree;
use crate::{ImageError, Result};

const HELPER: &str = "/usr/lib/apt/apt-helper";

/// Fetches each file into `build`, and puts it into the tree.
pub(crate) fn add_extra_files(
    spec: &ImageSpec,
    build: &Path,
    tree: &Tree,
    progress: &mut dyn Progress,
) -> Result<()> {
    if spec.files.is_empty() {
        return Ok(());
    }
    progress.step(Step::ExtraFiles);
    for (index, file) in spec.files.iter().enumerate() {
        progress.line(&file.url);
        let fetched = build.join(format!("extra-{index}"));
        fetch(file, &fetched, progress)?;
        let content = fs::read(&fetched).map_err(ImageError::io("read", &fetched))?;
        tree.add_file(Path::new(file.path.trim_start_matches('/')), &content, file.mode)?;
    }
    Ok(())
}

fn fetch(file: &ExtraFile, target: &Path, progress: &mut dyn Progress) -> Result<()> {
    let ended = Tool::new(HELPER, "apt")
        .args(["-o", "APT::Sandbox::User=root", "download-file", &file.url])
        .arg(target)
        .arg(format!("SHA256:{}", file.sha256))
        .run(progress)?;
    ended.map_err(|failure| ImageError::ExtraFile { url: file.url.clone(), output: failure.output })?;
    // Not left to a program whose behaviour we do not test.
    let found = crate::Sha256Hash::of_file(target).map_err(ImageError::io("read", target))?;
    if found == file.sha256 {
        return Ok(());
    }
    Err(ImageError::HashMismatch { path: target.to_owned(), expected: file.sha256, found })
}

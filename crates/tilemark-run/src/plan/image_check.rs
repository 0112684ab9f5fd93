//! Whether an image has the programs that a scenario's guests run.

use super::root_files::{There, in_erofs};
use crate::failure::{Failure, FailureCode};
use std::{collections::BTreeSet, path::Path};
use tilemark_image::{BUILT_IN_NAMES, FileName, Image, ImageSpec, InCache};
use tilemark_plan::{
    image_needs::{ImageNeed, image_needs},
    scenario::Scenario,
};

/// An image inside the program is known before it is built. Of another one only what is in it says what its packages brought along.
pub(crate) fn check_built_in(scenario: &Scenario) -> Result<(), Failure> {
    // One that the scenario makes has all that its guests need.
    match scenario.image.name().and_then(packages_of) {
        Some(packages) => check(scenario, &packages),
        None => Ok(()),
    }
}

/// The image itself, before a guest is started from it.
pub(crate) fn check_image(scenario: &Scenario, folder: &Path) -> Result<(), Failure> {
    let image = Image::open(folder)?;
    let packages = image.lock().packages.iter().map(|package| package.name.clone()).collect();
    check(scenario, &packages)
}

fn packages_of(built_in: &str) -> Option<BTreeSet<String>> {
    let spec = ImageSpec::built_in(built_in).ok()?;
    // `name=version` is possible, and the programs' own do not use it.
    Some(spec.packages.into_iter().collect())
}

fn check(scenario: &Scenario, packages: &BTreeSet<String>) -> Result<(), Failure> {
    let needs = image_needs(scenario);
    let missing: Vec<String> = needs
        .iter()
        .filter(|need| !has(packages, need))
        .map(|need| format!("no {}, which guest `{}` needs", need.program.name, need.guest))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let fit: Vec<&str> = BUILT_IN_NAMES
        .into_iter()
        .filter(|name| {
            packages_of(name).is_some_and(|packages| needs.iter().all(|need| has(&packages, need)))
        })
        .collect();
    let remedy = match fit[..] {
        [] => "let the scenario make an image that has all of it: write `[image]` with `packages = []` in place of `image`".to_owned(),
        [first, ..] => format!("use an image that has it: `--set image={first}`"),
    };
    Err(Failure::new(
        FailureCode::BadInput,
        format!("the image {} has {}", scenario.image, missing.join(", and ")),
        remedy,
    ))
}

fn has(packages: &BTreeSet<String>, need: &ImageNeed) -> bool {
    need.program.packages.iter().any(|package| packages.contains(*package))
}

/// Where packages of Debian put nothing (Debian policy 9.1, FHS 3.0): what is there was brought, or is absent.
const OF_NO_PACKAGE: [&str; 5] = ["/home/", "/opt/", "/root/", "/srv/", "/usr/local/"];
/// Where a program is looked for that is named without its folder: the agent's PATH.
const PATH: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Refuses programs, pages and SQL files of the user's own that the image cannot have: what it is known to lack before it is built, or
/// once it is.
///
/// # Errors
/// With the first one that is absent.
pub(crate) fn check_paths(scenario: &Scenario, spec: &ImageSpec, looked: &InCache) -> Result<(), Failure> {
    let root = match looked {
        InCache::Built(image) | InCache::BaseBuilt(image) => Some(image.path(FileName::RootErofs)),
        InCache::Missing => None,
    };
    let there = |path: &str| there(path, spec, root.as_deref());
    for guest in scenario.guest.iter().filter(|guest| guest.from.is_none()) {
        for (key, path) in [("pages", &guest.pages), ("sql", &guest.sql)] {
            if let Some(path) = path.as_ref().filter(|path| there(path) == There::No) {
                let message = format!(
                    "the image {} has no {path}, the `{key}` of guest `{}`",
                    scenario.image, guest.name
                );
                let remedy =
                    format!("bring it: `[image.files]` with `{path:?} = \"PATH BESIDE THE SCENARIO\"`");
                return Err(Failure::new(FailureCode::BadInput, message, remedy));
            }
        }
        let Some(program) = guest.run.first() else { continue };
        let candidates = match program.starts_with('/') {
            true => vec![program.clone()],
            false => PATH.iter().map(|folder| format!("{folder}/{program}")).collect(),
        };
        if candidates.iter().all(|path| there(path) == There::No) {
            let message =
                format!("the image {} has no {program}, the `run` of guest `{}`", scenario.image, guest.name);
            let remedy = "bring it with `[image.files]`, or name its package in `image.packages`";
            return Err(Failure::new(FailureCode::BadInput, message, remedy));
        }
        if let Some(file) =
            spec.files.iter().find(|file| candidates.contains(&file.path) && file.mode & 0o111 == 0)
        {
            let message = format!("{}, the `run` of guest `{}`, may not be executed", file.path, guest.name);
            let remedy = "make the file on the host executable (`chmod +x`), or run its interpreter: `run = [\"/bin/sh\", \"FILE\"]`";
            return Err(Failure::new(FailureCode::BadInput, message, remedy));
        }
    }
    Ok(())
}

fn there(path: &str, spec: &ImageSpec, root: Option<&Path>) -> There {
    let is_below =
        |file: &str| file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if spec.files.iter().any(|file| is_below(&file.path)) {
        return There::Yes;
    }
    match root {
        Some(root) => in_erofs(root, path),
        None if OF_NO_PACKAGE.iter().any(|folder| path.starts_with(folder)) => There::No,
        None => There::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_plan::{builtin::BUILTINS, parse::Draft};

    #[test]
    fn every_scenario_inside_the_program_names_an_image_that_fits() {
        for builtin in BUILTINS {
            let scenario = Draft::from_toml(builtin.text, builtin.name).unwrap().finish().unwrap();
            check_built_in(&scenario).unwrap_or_else(|failure| panic!("{}: {failure:?}", builtin.name));
        }
    }

    #[test]
    fn what_an_image_lacks_is_named_with_the_guest_and_an_image_that_has_it() {
        let text = tilemark_plan::builtin::builtin("sessions").unwrap().text;
        let text = text.replace("image = \"consolidation\"", "image = \"first-look\"");
        let scenario = Draft::from_toml(&text, "sessions").unwrap().finish().unwrap();
        let failure = check_built_in(&scenario).unwrap_err();
        assert_eq!(failure.message, "the image `first-look` has no PHP, which guest `web` needs");
        assert_eq!(failure.remedy, "use an image that has it: `--set image=consolidation`");
        assert_eq!(failure.code, FailureCode::BadInput);
    }
}

//! Whether an image has the programs that a scenario's guests run.

use crate::failure::{Failure, FailureCode};
use std::{collections::BTreeSet, path::Path};
use tilemark_image::{BUILT_IN_NAMES, Image, ImageSpec};
use tilemark_plan::{
    image_needs::{ImageNeed, image_needs},
    scenario::Scenario,
};

/// An image inside the program is known before it is built. Of another one only what is in it says what its packages brought along.
pub(crate) fn check_built_in(scenario: &Scenario) -> Result<(), Failure> {
    match packages_of(&scenario.image) {
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
        [] => "build an image that has all of it: list its packages in an `image.toml`, and name that file as the scenario's `image`".to_owned(),
        [first, ..] => format!("use an image that has it: `--set image={first}`"),
    };
    Err(Failure::new(
        FailureCode::BadInput,
        format!("the image `{}` has {}", scenario.image, missing.join(", and ")),
        remedy,
    ))
}

fn has(packages: &BTreeSet<String>, need: &ImageNeed) -> bool {
    need.program.packages.iter().any(|package| packages.contains(*package))
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

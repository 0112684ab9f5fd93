//! Files of the host that a scenario names by relative paths. A host of a fleet gets the text of a scenario in a folder of its own: no other
//! file is there.

use crate::{
    guest_image::{ImageFile, is_image_file},
    parse::Draft,
    problem::Problems,
    scenario::{RequestedImage, Scenario},
    trust::{HostUse, HostUseKind, scenario_uses},
};
use serde_json::Value;
use std::path::Path;

/// A file that is named by a relative path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelativePath {
    /// The dotted key of the value.
    pub key: String,
    /// The path.
    pub path: String,
}

/// The relative paths of a scenario and of what varies in it, each once.
///
/// # Errors
/// When the scenario has mistakes.
pub fn relative_paths(draft: &Draft) -> Result<Vec<RelativePath>, Problems> {
    let scenario = draft.finish()?;
    let mut all = of(&scenario);
    for vary in scenario.vary.values() {
        for value in &vary.values {
            let mut varied = draft.clone();
            varied.set(&vary.key, value.clone())?;
            all.extend(of(&varied.finish()?));
        }
    }
    let mut found: Vec<RelativePath> = Vec::new();
    for one in all.into_iter().filter(|one| Path::new(&one.path).is_relative()) {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    Ok(found)
}

/// All paths of a scenario.
fn of(scenario: &Scenario) -> Vec<RelativePath> {
    let of_uses = scenario_uses(scenario).flat_map(|found| {
        let paths = paths(&found);
        paths.into_iter().map(move |path| RelativePath { key: found.key.clone(), path })
    });
    // Those beside the scenario need no trust, and so are in no use.
    let of_image = files_of(&scenario.image).map(|path| RelativePath { key: "image.files".to_owned(), path });
    of_uses.chain(of_image).collect()
}

fn files_of(image: &RequestedImage) -> impl Iterator<Item = String> {
    let made = match image {
        RequestedImage::Named(_) => None,
        RequestedImage::Made(made) => Some(made),
    };
    made.into_iter().flat_map(|made| made.files.values()).filter_map(|file| match file {
        ImageFile::Host(path) => Some(path.clone()),
        ImageFile::Text { .. } => None,
    })
}

/// The paths of a value.
fn paths(found: &HostUse) -> Vec<String> {
    match (&found.value, found.kind) {
        (_, HostUseKind::Options | HostUseKind::Walls | HostUseKind::Setting) => Vec::new(),
        (Value::String(name), HostUseKind::Profile) if !is_image_file(name) => Vec::new(),
        (Value::String(path), _) => vec![path.clone()],
        (Value::Object(files), _) => files.values().filter_map(Value::as_str).map(str::to_owned).collect(),
        // A command's own program is looked for in the folder that its files are brought to, or where programs are.
        (Value::Array(_), HostUseKind::Program) => Vec::new(),
        (Value::Array(files), _) => files.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        (Value::Null | Value::Bool(_) | Value::Number(_), _) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::{BUILTINS, builtin};
    use serde_json::json;
    use tilemark_fixtures::TILE;

    fn found(text: &str) -> Vec<(String, String)> {
        let found = relative_paths(&Draft::from_toml(text, "test").unwrap()).unwrap();
        found.into_iter().map(|one| (one.key, one.path)).collect()
    }

    fn pair(key: &str, path: &str) -> (String, String) {
        (key.to_owned(), path.to_owned())
    }

    #[test]
    fn files_of_images_commands_disks_and_qemu_are_found_where_their_paths_are_relative() {
        let image = "[image]\nfrom = \"first-look\"\n[image.files]\n\"/srv/site\" = \"site\"\n\"/srv/b\" = \"/srv/b\"\n\
                     \"/etc/t\" = { text = \"t\" }\n";
        let all = found(&format!("{TILE}\n{image}"));
        assert_eq!(all, [pair("image.files", "site")]);
        let qemu = "[qemu]\nbinary = \"qemu\"\nkernel = \"/boot/vmlinuz\"\nfirmware = \"../fw.fd\"\n\
                    [host]\nprofile = \"mine.toml\"\n";
        let all = found(&format!("{TILE}\n{qemu}"));
        assert_eq!(
            all,
            [
                pair("qemu.binary", "qemu"),
                pair("qemu.firmware", "../fw.fd"),
                pair("host.profile", "mine.toml")
            ]
        );
        let named = found(&format!("{TILE}\n[host]\nprofile = \"tuned-virtual-host\"\n"));
        assert_eq!(named, []);
    }

    #[test]
    fn what_a_command_brings_is_found_and_the_program_that_it_starts_is_not() {
        let text = builtin("my-command").unwrap().text;
        let mut draft = Draft::from_toml(text, "test").unwrap();
        draft.set("load.bench.command.run", json!(["./bench.sh"])).unwrap();
        draft.set("load.bench.command.files", json!({ "bench.sh": "bench.sh", "in": "/srv/in" })).unwrap();
        let found = relative_paths(&draft).unwrap();
        let only = RelativePath { key: "load.bench.command.files".to_owned(), path: "bench.sh".to_owned() };
        assert_eq!(found, [only]);
    }

    #[test]
    fn values_that_vary_are_looked_at_too() {
        let vary = "[vary]\nkernel = { key = \"qemu.kernel\", values = [\"/boot/a\", \"b\"] }\n";
        assert_eq!(found(&format!("{TILE}\n{vary}")), [pair("qemu.kernel", "b")]);
    }

    #[test]
    fn the_scenarios_inside_the_program_have_none() {
        for builtin in BUILTINS {
            assert_eq!(found(builtin.text), [], "{}", builtin.name);
        }
    }
}

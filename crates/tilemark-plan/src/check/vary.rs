//! What may vary: what each point has for itself, and no key twice.

use crate::{problem::Say, scenario::Scenario};

/// Sections that are taken once for the whole plan, from the scenario without what varies and without a side's settings.
const OF_PLAN: [&str; 8] = ["about", "headline", "image", "ladder", "name", "preset", "schema", "vary"];

/// What to do about a key that is taken once.
pub(crate) const ONE_BY_ONE: &str = "set it for all with `--set`, or measure each value in a run of its own and compare the runs with `tilemark compare`";

/// Whether a key is taken once for the whole plan, so that a value for some of the points would have no effect. A key that does not
/// exist is none of these: whoever reads the scenario names it.
pub(crate) fn is_of_plan(key: &str) -> bool {
    let section = key.split('.').next().unwrap_or(key);
    // Of `host`, the profile and the settings are applied point by point.
    OF_PLAN.contains(&section) || matches!(key, "host" | "host.load_processors")
}

/// Whether one key sets what the other sets, or a part of it.
pub(crate) fn overlap(one: &str, other: &str) -> bool {
    let holds = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    holds(one, other) || holds(other, one)
}

/// Reports what varies without effect.
pub(super) fn check(scenario: &Scenario, say: &mut Say<'_>) {
    let mut before: Vec<(&str, &str)> = Vec::new();
    for (name, vary) in &scenario.vary {
        let key = vary.key.as_str();
        if is_of_plan(key) {
            say(format!("`vary.{name}` varies `{key}`, which is the same in the whole plan"), ONE_BY_ONE);
        }
        if let Some((other, others_key)) = before.iter().find(|(_, known)| overlap(known, key)) {
            let keys =
                if *others_key == key { format!("`{key}`") } else { format!("`{others_key}` and `{key}`") };
            say(
                format!("`vary.{other}` and `vary.{name}` both vary {keys}: one would replace the other"),
                "write all values in one of them",
            );
        } else {
            // Of many that vary one key each is reported with the first.
            before.push((name, key));
        }
        if vary.values.is_empty() {
            say(format!("`vary.{name}.values` is empty"), "write the values of its key, or leave it out");
        }
        let mut values = vary.values.iter().enumerate();
        if let Some((_, value)) = values.find(|(place, value)| vary.values[..*place].contains(value)) {
            say(format!("`vary.{name}.values` has {value} twice"), "write each value once");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Draft;

    const TILE: &str = "schema = 1\nname = \"t\"\nabout = \"t\"\n[[guest]]\nname = \"w\"\nrole = \"web\"\n[[load]]\nname = \"l\"\n\
        guest = \"w\"\nrate = \"1/s\"\n[load.web]\n[ladder]\ntiles = [1, 2]\n";

    /// What is reported of a tile that varies this.
    fn reported(vary: &str) -> String {
        let draft = Draft::from_toml(&format!("{TILE}{vary}"), "t").unwrap();
        draft
            .finish()
            .map_or_else(|problems| format!("{problems} ({})", problems.remedy()), |_| String::new())
    }

    #[test]
    fn a_key_that_is_taken_once_is_refused_by_name_with_what_to_do() {
        for key in [
            "image",
            "image.packages",
            "host.load_processors",
            "host",
            "ladder.tiles",
            "ladder.search_limit",
            "headline",
            "name",
            "about",
            "schema",
            "vary.x.key",
            "preset.quick",
        ] {
            let said = reported(&format!("[vary.x]\nkey = \"{key}\"\nvalues = [1, 2]\n"));
            assert!(
                said.contains(&format!("`vary.x` varies `{key}`, which is the same in the whole plan")),
                "{said}"
            );
            assert!(said.contains("`tilemark compare`"), "{said}");
        }
        for key in [
            "load.l.rate",
            "load.l.web.tls",
            "guest.w.net.vhost",
            "gate.p99",
            "measure.start",
            "qemu",
            "place.guests",
            "host.profile",
            "host.setting.vm.swappiness",
        ] {
            assert_eq!(reported(&format!("[vary.x]\nkey = \"{key}\"\nvalues = [1, 2]\n")), "", "{key}");
        }
    }

    #[test]
    fn one_key_varies_once_and_so_do_its_parts() {
        let two = |one: &str, other: &str| {
            reported(&format!(
                "[vary.a]\nkey = \"{one}\"\nvalues = [1, 2]\n[vary.b]\nkey = \"{other}\"\nvalues = [3, 4]\n"
            ))
        };
        let said = two("load.l.rate", "load.l.rate");
        assert!(said.contains("`vary.a` and `vary.b` both vary `load.l.rate`: one would replace"), "{said}");
        let said = two("load.l.web.tls", "load.l.web");
        assert!(said.contains("both vary `load.l.web.tls` and `load.l.web`"), "{said}");
        assert_eq!(two("load.l.rate", "load.l.rates"), "");
    }

    #[test]
    fn a_key_that_varies_has_values_and_each_once() {
        let said = reported("[vary.x]\nkey = \"load.l.rate\"\nvalues = []\n");
        assert!(said.contains("`vary.x.values` is empty"), "{said}");
        let said = reported("[vary.x]\nkey = \"load.l.rate\"\nvalues = [\"1/s\", \"2/s\", \"1/s\"]\n");
        assert!(said.contains("`vary.x.values` has \"1/s\" twice"), "{said}");
    }

    /// A new section is either taken once, or belongs to each point: this list says so, and `Point` has it.
    #[test]
    fn every_section_is_taken_once_or_belongs_to_each_point() {
        let draft = Draft::from_toml(&format!("{TILE}[place]\nguests = \"spread\"\n"), "t").unwrap();
        let scenario = serde_json::to_value(draft.finish().unwrap()).unwrap();
        let of_points = ["gate", "guest", "host", "load", "measure", "place", "qemu"];
        for section in scenario.as_object().unwrap().keys() {
            let is_of_points = of_points.contains(&section.as_str());
            assert_ne!(OF_PLAN.contains(&section.as_str()), is_of_points, "{section}");
        }
    }
}

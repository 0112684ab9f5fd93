//! Profiles: lists of settings of a host with their values, each with its source.

use crate::{
    builtin::Builtin,
    check::text::check_text,
    parse::not_toml,
    problem::{Problem, Problems},
};
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use std::collections::BTreeSet;
use tilemark_units::in_our_words;

/// The profiles inside the program.
pub const PROFILES: [Builtin; 5] = [
    Builtin { name: "current", text: include_str!("../../../profiles/current.toml") },
    Builtin { name: "consolidation-2009", text: include_str!("../../../profiles/consolidation-2009.toml") },
    Builtin { name: "messaging-2009", text: include_str!("../../../profiles/messaging-2009.toml") },
    Builtin { name: "oltp-2009", text: include_str!("../../../profiles/oltp-2009.toml") },
    Builtin { name: "block-io-2012", text: include_str!("../../../profiles/block-io-2012.toml") },
];

/// The profile inside the program with this name.
pub fn builtin(name: &str) -> Option<Builtin> {
    PROFILES.into_iter().find(|builtin| builtin.name == name)
}

/// `schema` of the profiles that this version reads.
pub const PROFILE_SCHEMA: u32 = 1;
/// Most settings of a profile.
pub const SETTINGS_MAX: usize = 1000;
/// Characters of a name, as of a scenario's.
const NAME_MAX: usize = 40;

/// A list of settings of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Version of the format.
    pub schema: u32,
    /// Its name.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// Where all of it comes from.
    #[serde(default)]
    pub source: String,
    /// The settings, in the order in which they are applied.
    #[serde(default, rename = "setting")]
    pub settings: Vec<ProfileSetting>,
}

/// A setting of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileSetting {
    /// Its key in the catalogue of settings. One without a value may be called anything.
    pub key: String,
    /// Its value; `None` where nothing is to be set today.
    #[serde(default, deserialize_with = "text_or_number", skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where it comes from: a section of a paper, a document of the kernel.
    #[serde(default)]
    pub source: String,
    /// What a paper set, in its own terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// What became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub today: Option<Today>,
    /// The effect that a paper claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// More about it, in a sentence or two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Whether a host may lack it: then it is skipped, and that is reported.
    #[serde(default)]
    pub optional: bool,
}

/// What became of a setting on a current kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Today {
    /// It exists unchanged.
    Same,
    /// A current kernel or machine has this value by itself.
    Default,
    /// It has another name.
    Renamed,
    /// It does not exist any more.
    Gone,
    /// It exists, and nobody should set it any more.
    Obsolete,
}

impl Profile {
    /// Reads TOML. `origin` is the file or name, for messages.
    ///
    /// # Errors
    /// Everything that is wrong with it, as far as it can be known without a host.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, Problems> {
        check_text(text, origin, "profile")?;
        let profile: Self = toml::from_str(text).map_err(|error| unreadable(text, origin, &error))?;
        let problems = profile.problems();
        if problems.is_empty() { Ok(profile) } else { Err(Problems(problems)) }
    }

    /// The profile as TOML, which [`Self::from_toml`] reads again.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a profile has only texts, numbers and switches")
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut say = |message: String, remedy: &str| problems.push(Problem::new(message, remedy));
        if self.schema != PROFILE_SCHEMA {
            say(format!("`schema = {}` is not known", self.schema), "write `schema = 1`");
        }
        let is_odd = |name: &str| name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        if self.name.is_empty() || self.name.len() > NAME_MAX || is_odd(&self.name) || self.name == "none" {
            say(
                format!("`name = {:?}` is not a valid name", self.name),
                "use at most 40 letters, digits and `-`, and another word than `none`",
            );
        }
        if self.settings.len() > SETTINGS_MAX {
            say(format!("it has {} settings", self.settings.len()), "give 1000 at most");
        }
        let mut keys = BTreeSet::new();
        for ProfileSetting { key, value, .. } in &self.settings {
            if key.is_empty() {
                say("a setting has no key".to_owned(), "name what it sets");
            } else if key.contains(char::is_control) || (value.is_some() && key.contains(is_no_part_of_a_key))
            {
                say(
                    format!("{key:?} is not the key of a setting"),
                    "write it as `tilemark host settings` lists it, without blanks, quotation marks, `=` or `#`",
                );
            } else if !keys.insert(key) {
                say(format!("`{key}` is set twice"), "keep one of the two");
            }
            if value.as_ref().is_some_and(|value| value.trim().is_empty()) {
                say(
                    format!("`{key}` has an empty value"),
                    "give a value, or leave `value` out to set nothing",
                );
            }
        }
        problems
    }
}

/// What keeps a text from being a profile. A key that the whole file lacks is on none of its lines.
fn unreadable(text: &str, origin: &str, error: &toml::de::Error) -> Problem {
    let is_at_start = error.span().is_none_or(|span| span.start == 0) && !text.starts_with('[');
    if is_at_start && error.message().starts_with("missing field") {
        let message = format!("{origin}: {}", in_our_words(error.message()));
        return Problem::new(message, "add it: a profile begins with `schema = 1`, `name` and `about`");
    }
    let remedy = "correct the line that is named; docs/host-settings.md shows the format";
    Problem::new(not_toml(text, origin, error), remedy)
}

/// What no key of the catalogue has. On the kernel's line, and in the files of other programs, it would end the key.
fn is_no_part_of_a_key(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '=' | '#' | ';' | '"' | '\'' | '`')
}

/// Values are texts. A number or a switch that is written without quotes is meant as its text.
fn text_or_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match toml::Value::deserialize(from)? {
        toml::Value::String(text) => Ok(Some(text)),
        toml::Value::Integer(number) => Ok(Some(number.to_string())),
        other => {
            Err(D::Error::custom(format!("`value` is a text or a whole number, and no {}", other.type_str())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A profile with these lines of settings.
    fn with(settings: &str) -> String {
        format!("schema = 1\nname = \"test\"\nabout = \"A test.\"\n{settings}")
    }

    fn refused(text: &str) -> String {
        Profile::from_toml(text, "test.toml").unwrap_err().to_string()
    }

    #[test]
    fn every_profile_inside_the_program_reads_and_has_its_sources() {
        for Builtin { name, text } in PROFILES {
            let profile = Profile::from_toml(text, name).unwrap_or_else(|problems| panic!("{problems}"));
            assert_eq!(profile.name, name);
            assert!(!profile.source.is_empty() && profile.settings.iter().all(|one| !one.source.is_empty()));
            assert_eq!(Profile::from_toml(&profile.to_toml(), name).unwrap(), profile);
        }
    }

    #[test]
    fn a_value_is_a_text_and_may_be_written_as_a_number_or_left_out() {
        let text = with(
            "[[setting]]\nkey = \"vm.swappiness\"\nvalue = 10\n\
             [[setting]]\nkey = \"ksm\"\nvalue = \"off\"\noptional = true\n\
             [[setting]]\nkey = \"firmware.sleep\"\nthen = \"off\"\ntoday = \"obsolete\"\n",
        );
        let profile = Profile::from_toml(&text, "test.toml").unwrap();
        let values: Vec<Option<&str>> = profile.settings.iter().map(|one| one.value.as_deref()).collect();
        assert_eq!(values, [Some("10"), Some("off"), None]);
        assert!(profile.settings[1].optional && profile.settings[2].today == Some(Today::Obsolete));
    }

    #[test]
    fn all_that_is_wrong_is_named() {
        let twice = "[[setting]]\nkey = \"ksm\"\nvalue = \"on\"\n[[setting]]\nkey = \"ksm\"\nvalue = \" \"\n";
        let said = refused(&with(twice).replace("= 1", "= 7").replace("\"test\"", "\"no name\""));
        for part in ["`schema = 7`", "\"no name\"", "`ksm` is set twice", "`ksm` has an empty value"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        // What the whole file lacks is on no line of it; what a setting lacks is.
        for text in ["", "name = \"test\"\nabout = \"A test.\"\n"] {
            assert!(refused(text).starts_with("test.toml: `schema` is missing"), "{}", refused(text));
        }
        let said = refused(&with("[[setting]]\nvalue = \"on\"\n"));
        assert!(said.contains("test.toml, line 4: `key` is missing: [[setting]]"), "{said}");
        let said = refused(&with("[[setting]]\nkey = \"ksm\"\nvalu = \"on\"\n"));
        assert!(said.contains("test.toml") && said.contains("valu"), "{said}");
        assert!(refused(&with("[[setting]]\nkey = \"ksm\"\nvalue = [1]\n")).contains("array"));
        assert!(refused(&with("\u{7}")).contains("line 4"));
        for key in ["vm.z init=/bin/sh", "vm.x\\nkernel.core_pattern", "vm.\\\"x", "vm.x#"] {
            let said = refused(&with(&format!("[[setting]]\nkey = \"{key}\"\nvalue = 1\n")));
            assert!(said.contains("is not the key of a setting"), "{key}: {said}");
        }
        let of_then = with("[[setting]]\nkey = \"sleep states (BIOS)\"\nthen = \"off\"\n");
        assert!(
            Profile::from_toml(&of_then, "test.toml").is_ok(),
            "one that sets nothing may be called anything"
        );
        assert!(refused(&with("").replace("\"test\"", "\"none\"")).contains("none"));
    }
}

//! What a user asked of a setting, and what families make settings with.

use super::{accepts::Accepts, root::Root};
use crate::error::HostError;
use crate::read::list::parse_list;
use crate::setting::{Form, Reach, Setting};

/// A key and a value that were asked for.
pub(super) struct Request<'a> {
    pub(super) root: &'a Root,
    pub(super) key: &'a str,
    /// The names in the key that its pattern leaves open.
    pub(super) parts: Vec<&'a str>,
    /// Without blanks around it, and such that the catalogue takes it.
    pub(super) value: &'a str,
    pub(super) accepts: Accepts,
}

/// Makes the settings of this host for a key and a value.
pub(super) type Make = fn(&Request<'_>) -> Result<Vec<Setting>, HostError>;

/// What to do where the kernel or the machine lacks something.
pub(super) const LEAVE_OUT: &str = "leave it out";

impl Request<'_> {
    /// Whether the value is the word `on`.
    pub(super) fn is_on(&self) -> bool {
        self.value == "on"
    }

    /// The last part of the key.
    pub(super) fn name(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or_default()
    }

    /// What a table has for the last part of the key.
    pub(super) fn looked_up<T: Copy>(&self, table: &[(&str, T)]) -> Result<T, HostError> {
        let found = table.iter().find(|(name, _)| *name == self.name()).map(|(_, value)| *value);
        found.ok_or_else(|| HostError::UnknownSetting { key: self.key.to_owned(), nearest: Vec::new() })
    }

    /// One file of the host that has exactly the value that was asked for.
    pub(super) fn file(&self, path: &str, form: Form) -> Result<Vec<Setting>, HostError> {
        self.file_with(path, form, self.value)
    }

    /// One file of the host with another value, in the kernel's own terms.
    pub(super) fn file_with(&self, path: &str, form: Form, value: &str) -> Result<Vec<Setting>, HostError> {
        Ok(vec![self.one(self.key, path, form, value)?])
    }

    /// The same, under a name that says which of several it is.
    pub(super) fn one(&self, name: &str, path: &str, form: Form, value: &str) -> Result<Setting, HostError> {
        let file = self.root.path(path);
        if !file.exists() {
            return Err(self.absent(format!("there is no {}", file.display()), LEAVE_OUT));
        }
        Ok(Setting::file(name, file, form, value))
    }

    /// A file that the kernel changes along with what is asked for, held at its value of now. None where it cannot be read or written.
    pub(super) fn along(&self, name: &str, path: &str) -> Option<Setting> {
        let file = self.root.path(path);
        let is_fixed = file.metadata().ok()?.permissions().readonly();
        let now = self.root.text(path)?;
        (!is_fixed).then(|| Setting::file(name, file, Form::Whole, &now).follower())
    }

    /// One of the words in the file's text, the current one in brackets or not.
    pub(super) fn choice(&self, name: &str, path: &str) -> Result<Setting, HostError> {
        let text = self.root.text(path).unwrap_or_default();
        let setting = self.one(name, path, Form::Choice, self.value)?;
        let words: Vec<&str> = text.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
        if words.contains(&self.value) { Ok(setting) } else { Err(self.bad(words.join(", "))) }
    }

    /// The value as a list of processors, each online.
    pub(super) fn processors(&self) -> Result<Vec<u32>, HostError> {
        let online = self.root.processors();
        let wanted = parse_list(self.value).ok_or_else(|| self.bad(self.accepts))?;
        let Some(missing) = wanted.iter().find(|processor| !online.contains(processor)) else {
            return Ok(wanted);
        };
        let state = if self.root.present().contains(missing) { "is offline" } else { "does not exist" };
        let online = tilemark_units::ranges(&online);
        Err(self.bad(format!("processors that are online ({online}), and processor {missing} {state}")))
    }

    /// Processors as the kernel's masks have them.
    pub(super) fn mask(&self) -> Result<String, HostError> {
        Ok(mask_of(&self.processors()?))
    }

    pub(super) fn bad(&self, accepts: impl ToString) -> HostError {
        HostError::BadSettingValue {
            key: self.key.to_owned(),
            value: self.value.to_owned(),
            accepts: accepts.to_string(),
        }
    }

    /// One file of the host that has the value as a mask.
    pub(super) fn mask_file(&self, path: &str) -> Result<Vec<Setting>, HostError> {
        self.file_with(path, Form::Mask, &self.mask()?)
    }

    /// What is no file, where this host lets it be read.
    pub(super) fn readable(&self, reach: Reach) -> Result<Vec<Setting>, HostError> {
        let setting = Setting::by(self.key, reach, self.value);
        match setting.read() {
            Ok(_) => Ok(vec![setting]),
            Err(HostError::Setting { source, .. }) => Err(self.absent(source.to_string(), LEAVE_OUT)),
            Err(other) => Err(other),
        }
    }

    pub(super) fn absent(&self, why: impl Into<String>, remedy: &'static str) -> HostError {
        HostError::SettingAbsent { key: self.key.to_owned(), why: why.into(), remedy }
    }
}

/// The hexadecimal mask of processors.
fn mask_of(processors: &[u32]) -> String {
    let most = processors.iter().max().copied().unwrap_or(0);
    let digits = (0..=most / 4).rev().map(|place| {
        let bits = processors.iter().filter(|processor| **processor / 4 == place);
        bits.fold(0, |digit, processor| digit | (1_u32 << (processor % 4)))
    });
    digits.map(|digit| format!("{digit:x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_the_bits_of_its_processors() {
        assert_eq!(mask_of(&[]), "0");
        assert_eq!(mask_of(&[0, 1, 2, 3]), "f");
        assert_eq!(mask_of(&[1, 36]), "1000000002");
    }
}

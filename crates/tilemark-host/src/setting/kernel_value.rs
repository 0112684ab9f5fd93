//! One value of the kernel in a file: how it is read, written, and read back.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::HostError;

/// A setting of the host, and the value it is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// What it is, as a reader is shown it: `wake-up latency limit (PM QoS) of CPU 3`.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// How the file's text holds the value.
    pub form: Form,
    /// The value it is to have, as it is read.
    pub value: String,
}

/// How the text of a setting's file holds its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The text is the value, without blanks around it. Writing the value sets it.
    Whole,
    /// All values in a line, the current one in brackets: `always [madvise] never`. Writing one of them sets it.
    Choice,
    /// A list of words, which has this one or not. The value is the word or nothing; `+word` adds it and `-word` removes it.
    Member(String),
}

impl Form {
    /// The value in the text of a file.
    pub fn value_in(&self, text: &str) -> String {
        match self {
            Self::Whole => text.trim().to_owned(),
            Self::Choice => {
                let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
                chosen.map_or_else(|| text.trim(), |(chosen, _)| chosen).to_owned()
            }
            Self::Member(word) => {
                text.split_whitespace().find(|found| found == word).unwrap_or_default().to_owned()
            }
        }
    }

    /// What is written to restore the value that a file had when its text was `text`.
    pub(super) fn order_for(&self, text: &str) -> String {
        match self {
            Self::Whole => text.to_owned(),
            Self::Choice => self.value_in(text),
            Self::Member(word) if self.value_in(text).is_empty() => format!("-{word}"),
            Self::Member(word) => format!("+{word}"),
        }
    }
}

impl Setting {
    /// The text of its file now.
    ///
    /// # Errors
    /// [`HostError::Setting`] where it cannot be read.
    pub fn read(&self) -> Result<String, HostError> {
        fs::read_to_string(&self.path).map_err(|source| self.failed("read", source))
    }

    /// Sets the value it is to have, and reads it back: a kernel may take what is written and ignore it. Calls `written` between.
    pub(super) fn set(&self, written: &mut dyn FnMut()) -> Result<(), HostError> {
        self.write(&self.value)?;
        written();
        let read = self.form.value_in(&self.read()?);
        if read == self.value {
            return Ok(());
        }
        Err(HostError::SettingIgnored {
            name: self.name.clone(),
            path: self.path.clone(),
            written: self.value.clone(),
            read,
        })
    }

    /// Restores the value that its file had when its text was `text`.
    pub(super) fn write(&self, text: &str) -> Result<(), HostError> {
        let order = self.form.order_for(text);
        write_existing(&self.path, &order).map_err(|source| self.failed("write", source))
    }

    fn failed(&self, verb: &'static str, source: std::io::Error) -> HostError {
        HostError::Setting { verb, name: self.name.clone(), path: self.path.clone(), source }
    }
}

/// The file is never created: where the kernel has none there is nothing to set.
fn write_existing(path: &Path, order: &str) -> std::io::Result<()> {
    File::options().write(true).truncate(true).open(path)?.write_all(order.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_in_the_text_of_each_form() {
        let member = Form::Member("memory".to_owned());
        for (form, text, value, order) in [
            (Form::Whole, "4096\t87380\t6291456\n", "4096\t87380\t6291456", "4096\t87380\t6291456\n"),
            (Form::Choice, "always [madvise] never\n", "madvise", "madvise"),
            // Not every list marks one.
            (Form::Choice, "none\n", "none", "none"),
            (member.clone(), "cpu memory\n", "memory", "+memory"),
            (member.clone(), "cpu memory_recursive\n", "", "-memory"),
            (member, "\n", "", "-memory"),
        ] {
            assert_eq!(
                (form.value_in(text).as_str(), form.order_for(text).as_str()),
                (value, order),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_file_that_the_kernel_does_not_have_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("absent");
        let setting = Setting {
            name: "absent".to_owned(),
            path: path.clone(),
            form: Form::Whole,
            value: "1".to_owned(),
        };
        assert!(matches!(setting.set(&mut || {}), Err(HostError::Setting { verb: "write", .. })));
        assert!(!path.exists());
    }
}

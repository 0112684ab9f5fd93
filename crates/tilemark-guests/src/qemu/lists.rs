//! What a QEMU program can be: its machine types and processor models, as it lists them itself.

use super::{
    program::{asked, not_qemu},
    settings::Accelerator,
};
use crate::error::GuestError;
use std::path::Path;
use tilemark_units::distance;

/// The machine types and processor models of one QEMU program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QemuLists {
    /// Each name, and the name behind it where it is an alias.
    machines: Vec<(String, Option<String>)>,
    cpus: Vec<String>,
}

impl QemuLists {
    /// Asks the program, which takes some hundredths of a second.
    ///
    /// # Errors
    /// When it cannot be started or lists nothing.
    pub fn of(binary: &Path) -> Result<Self, GuestError> {
        let list = |flag| asked(binary, &[flag, "help"]);
        let lists = Self { machines: machines(&list("-machine")?), cpus: cpus(&list("-cpu")?) };
        if lists.machines.is_empty() || lists.cpus.is_empty() {
            let why = "it lists no machine types or no processor models".to_owned();
            return Err(not_qemu(binary, &["-machine", "help"], why));
        }
        Ok(lists)
    }

    /// The name by which a machine type goes, its options left out; `None` where this QEMU lacks it.
    pub fn machine(&self, wanted: &str) -> Option<&str> {
        let wanted = name_of(wanted);
        let (name, alias) = self.machines.iter().find(|(name, _)| name == wanted)?;
        Some(alias.as_ref().unwrap_or(name))
    }

    /// Whether it has a processor model, its options left out, with this accelerator.
    pub fn has_cpu(&self, wanted: &str, accelerator: Accelerator) -> bool {
        let wanted = name_of(wanted);
        let needs_kvm = wanted == "host";
        self.cpus.iter().any(|name| name == wanted) && (!needs_kvm || accelerator == Accelerator::Kvm)
    }

    /// Machine types whose names are the nearest to this one.
    pub fn machines_like(&self, wanted: &str) -> Vec<&str> {
        nearest(self.machines.iter().map(|(name, _)| name.as_str()), name_of(wanted))
    }

    /// Processor models whose names are the nearest to this one.
    pub fn cpus_like(&self, wanted: &str) -> Vec<&str> {
        nearest(self.cpus.iter().map(String::as_str), name_of(wanted))
    }
}

/// What comes before the first option.
fn name_of(value: &str) -> &str {
    value.split(',').next().unwrap_or(value)
}

fn machines(text: &str) -> Vec<(String, Option<String>)> {
    let one = |line: &str| {
        let (name, rest) = line.split_once(char::is_whitespace)?;
        let alias = rest.split("(alias of ").nth(1).and_then(|rest| rest.split(')').next());
        Some((name.to_owned(), alias.map(str::to_owned)))
    };
    text.lines().skip(1).filter_map(one).collect()
}

/// Lines begin with `x86` up to QEMU 9, with blanks after it; the flags of processors follow under a heading.
fn cpus(text: &str) -> Vec<String> {
    let models = text.lines().skip(1).take_while(|line| !line.ends_with(':'));
    let name = |line: &str| {
        let mut words = line.split_whitespace();
        match words.next()? {
            "x86" => words.next().map(str::to_owned),
            name => Some(name.to_owned()),
        }
    };
    models.filter_map(name).collect()
}

/// Names that are shown.
const NEAREST: usize = 4;

fn nearest<'a>(names: impl Iterator<Item = &'a str>, wanted: &str) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_by_cached_key(|name| distance(&name.to_lowercase(), &wanted.to_lowercase()));
    names.truncate(NEAREST);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINES: &str = "Supported machines are:\n\
        microvm              microvm (i386)\n\
        pc                   Standard PC (i440FX + PIIX, 1996) (alias of pc-i440fx-7.2)\n\
        pc-i440fx-7.2        Standard PC (i440FX + PIIX, 1996) (default)\n\
        q35                  Standard PC (Q35 + ICH9, 2009) (alias of pc-q35-7.2)\n\
        pc-q35-7.2           Standard PC (Q35 + ICH9, 2009)\n";

    fn lists(cpus_text: &str) -> QemuLists {
        QemuLists { machines: machines(MACHINES), cpus: cpus(cpus_text) }
    }

    #[test]
    fn the_lists_of_old_and_new_versions_are_read() {
        for text in [
            "Available CPUs:\nx86 Nehalem-v1            Intel Core i7\nx86 host      KVM\nx86 max\n\nRecognized CPUID flags:\n  avx2\n",
            "Available CPUs:\n  Nehalem-v1            Intel Core i7\n  host      KVM\n  max\n\nRecognized CPUID flags:\n  avx2\n",
        ] {
            assert_eq!(lists(text).cpus, ["Nehalem-v1", "host", "max"]);
        }
        let lists = lists("Available CPUs:\nx86 host   KVM\nx86 max\n");
        assert_eq!(lists.machine("pc,hpet=off"), Some("pc-i440fx-7.2"));
        assert_eq!(lists.machine("pc-q35-7.2"), Some("pc-q35-7.2"));
        assert_eq!(lists.machine("pc-q35-99"), None);
        assert!(lists.has_cpu("max,-avx2", Accelerator::Emulated));
        assert!(lists.has_cpu("host", Accelerator::Kvm) && !lists.has_cpu("host", Accelerator::Emulated));
    }

    #[test]
    fn the_nearest_names_come_first() {
        let lists = lists("Available CPUs:\nx86 max\nx86 Nehalem-v1\n");
        assert_eq!(lists.machines_like("q53")[..1], ["q35"]);
        assert_eq!(lists.machines_like("pc-q35-9.2")[0], "pc-q35-7.2");
        assert_eq!(lists.cpus_like("nehalem")[0], "Nehalem-v1");
    }
}

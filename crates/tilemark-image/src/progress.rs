//! How a build reports what it is doing; it takes a minute or more and must not be silent.

use std::fmt;

/// What a build is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Waiting for another build in the same cache.
    Waiting,
    /// Downloading and installing packages.
    Packages,
    /// Downloading the extra files of the specification.
    ExtraFiles,
    /// Adding files of the host to an image that is there.
    OwnFiles,
    /// Taking the kernel and its modules out of their package.
    Kernel,
    /// Packing the root file system.
    FileSystem,
    /// Hashing what was built.
    Hashing,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Waiting => "waiting for another build",
            Self::Packages => "installing packages",
            Self::ExtraFiles => "fetching extra files",
            Self::OwnFiles => "adding the scenario's files",
            Self::Kernel => "unpacking the kernel",
            Self::FileSystem => "packing the file system",
            Self::Hashing => "hashing",
        })
    }
}

/// Receives the progress of a build.
pub trait Progress {
    /// A step begins; the one before it is done.
    fn step(&mut self, step: Step);
    /// A line of output of the tool that runs in this step.
    fn line(&mut self, line: &str);
}

/// Reports nothing.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {
    fn step(&mut self, _: Step) {}
    fn line(&mut self, _: &str) {}
}

//! What can be wrong with a workload.

use std::io;

/// A workload that could not be prepared or done.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A mix of files that nothing can be drawn from.
    #[error("the web workload's files have no weight above 0")]
    NoFiles,
    /// Bodies are held in memory at both ends.
    #[error("the web workload's files hold {bytes} bytes, and at most {limit} are possible")]
    FilesTooLarge {
        /// All sizes.
        bytes: u64,
        /// The most.
        limit: u64,
    },
    /// A path that would not be a request line.
    #[error(
        "`{path}` is not a valid path of a URL: it must begin with `/` and hold no space or control character"
    )]
    BadPath {
        /// The path.
        path: String,
    },
    /// What certificates are accepted is not understood.
    #[error("TLS is not possible: {why}")]
    BadTls {
        /// What is wrong.
        why: String,
    },
    /// The disk load has nothing to work on.
    #[error("the disk load has no data disk")]
    NoDisk,
    /// A job that fio could not do.
    #[error("the disk load's {what} is {value}")]
    BadDisk {
        /// Which setting.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// A program could not be started.
    #[error("cannot run `{program}`")]
    Program {
        /// Its name.
        program: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A file of the workload could not be read or written.
    #[error("cannot use `{path}`")]
    File {
        /// Its path.
        path: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A program that does a load ended with an error.
    #[error("{program} ended with {how}: {said}")]
    ProgramFailed {
        /// Its name.
        program: &'static str,
        /// Its exit code or signal.
        how: String,
        /// The last lines that it said.
        said: String,
    },
    /// The load at a rate could not go on.
    #[error("the disk load at a rate failed")]
    Load(#[source] tilemark_load::LoadError),
    /// A program's report could not be understood.
    #[error("{program}'s report has no usable {what}")]
    BadReport {
        /// Its name.
        program: &'static str,
        /// What was looked for.
        what: &'static str,
    },
}

impl WorkloadError {
    /// What the reader should do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoFiles => "give `web.files` at least one size with a weight above 0",
            Self::FilesTooLarge { .. } => "choose fewer or smaller `web.files`",
            Self::BadPath { .. } => {
                "write `web.path` as the part of a URL after the host, such as `/index.html`"
            }
            Self::BadTls { .. } => {
                "give a certificate of an authority as PEM text, and a host that is a name or an address"
            }
            Self::NoDisk => "give the guest a data disk in the scenario",
            Self::BadDisk { .. } => {
                "use a `block_size` from 512B to 16MiB and a `depth` from 1 to 4096, at a rate at most 1024 over all disks"
            }
            Self::Program { .. } => {
                "install it on this host for a native run, or build the image with its package: see `tilemark image build --help`"
            }
            Self::File { .. } => {
                "see that the path exists, that it may be used, and that there is space left"
            }
            Self::ProgramFailed { .. } => {
                "read what it said, and the guest's console; the usual causes are a missing disk and lack of memory"
            }
            Self::Load(error) => error.remedy(),
            Self::BadReport { .. } => {
                "use the version that Debian 12 has; another version may report differently"
            }
        }
    }
}

//! Whether a step holds, in one word.

/// What the gate found for a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is within all limits.
    Holds,
    /// An interval lies across a limit, or too few repeats were kept.
    Undecided,
    /// It is beyond one limit, or a guest or service failed.
    Breaks,
    /// It was not judged.
    Unknown,
}

impl Outcome {
    /// In a word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Undecided => "undecided",
            Self::Breaks => "breaks",
            Self::Unknown => "cannot tell",
        }
    }

    /// Its name in the style sheet.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            known => known.word(),
        }
    }
}

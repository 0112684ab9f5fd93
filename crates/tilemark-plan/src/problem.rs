//! What is wrong with a scenario or a plan, all of it at once.

use std::fmt;

/// One thing that is wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What, with its value.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

impl Problem {
    /// From its two texts.
    pub fn new(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: remedy.into() }
    }
}

/// Takes a message and a remedy.
pub type Say<'a> = dyn FnMut(String, &str) + 'a;

/// Everything that is wrong; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// All remedies, one after another, each once.
    pub fn remedy(&self) -> String {
        let mut remedies: Vec<&str> = Vec::new();
        for problem in &self.0 {
            if !remedies.contains(&problem.remedy.as_str()) {
                remedies.push(&problem.remedy);
            }
        }
        remedies.join("; ")
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return formatter.write_str(&only.message);
        }
        write!(formatter, "{} problems:", self.0.len())?;
        for problem in &self.0 {
            write!(formatter, "\n  {} ({})", problem.message, problem.remedy)?;
        }
        Ok(())
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

//! What is wrong with a scenario or a plan, all of it at once.

use std::{collections::BTreeSet, fmt, ops::RangeInclusive};

/// One thing that is wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What, with its value.
    pub message: String,
    /// What to do. Empty where only `page` helps.
    pub remedy: String,
    /// Where more about it is written.
    pub page: Option<&'static str>,
}

impl Problem {
    /// From its two texts.
    pub fn new(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: remedy.into(), page: None }
    }
}

/// Takes a message and a remedy.
pub type Say<'a> = dyn FnMut(String, &str) + 'a;

/// A setting of a load with a value that cannot work. Loads of `messaging` and `store` have one list of rules, in a scenario and alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {value}")]
pub struct Fault {
    /// Its key, such as `prefetch`, or what is counted from several, such as `queues x publishers`.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What to do: the values that work, and the reason where it is not plain.
    pub remedy: String,
}

impl Fault {
    /// Nothing where the value `is_possible`.
    pub fn unless(
        is_possible: bool,
        key: &'static str,
        value: impl fmt::Display,
        remedy: impl Into<String>,
    ) -> Option<Self> {
        (!is_possible).then(|| Self { key, value: value.to_string(), remedy: remedy.into() })
    }

    /// Nothing where the value is in its range.
    pub fn outside<T: PartialOrd + fmt::Display>(
        range: RangeInclusive<T>,
        key: &'static str,
        value: T,
    ) -> Option<Self> {
        let remedy = format!("use {} to {}", range.start(), range.end());
        Self::unless(range.contains(&value), key, value, remedy)
    }
}

/// Everything that is wrong; never empty. Each remedy is printed once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// What to do about all of them. Where each has a remedy of its own, [`Display`](fmt::Display) has it beside the problem.
    pub fn remedy(&self) -> String {
        let first = self.shared_remedy().unwrap_or("do what is written in brackets");
        let pages: BTreeSet<&str> = self.0.iter().filter_map(|problem| problem.page).collect();
        let parts: Vec<&str> =
            std::iter::once(first).filter(|first| !first.is_empty()).chain(pages).collect();
        parts.join("; ")
    }

    /// The remedy that all of them have, as one problem alone has.
    fn shared_remedy(&self) -> Option<&str> {
        let first = self.0.first()?.remedy.as_str();
        self.0.iter().all(|problem| problem.remedy == first).then_some(first)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return formatter.write_str(&only.message);
        }
        write!(formatter, "{} problems:", self.0.len())?;
        let (is_shared, mut written) = (self.shared_remedy().is_some(), BTreeSet::new());
        for problem in &self.0 {
            write!(formatter, "\n  {}", problem.message)?;
            if !is_shared && !problem.remedy.is_empty() && written.insert(&problem.remedy) {
                write!(formatter, " ({})", problem.remedy)?;
            }
        }
        Ok(())
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

//! A figure as the record has it, or null with its reason in `missing`.

use std::collections::BTreeMap;

use tilemark_record::result::Figure;

use crate::figure::Missing;

impl From<crate::figure::Figure> for Figure {
    fn from(figure: crate::figure::Figure) -> Self {
        Self {
            value: figure.value,
            low: figure.low(),
            high: figure.high(),
            n_repeats: u32::try_from(figure.n_repeats).unwrap_or(u32::MAX),
        }
    }
}

/// Notes why figures are null, below one dotted name.
pub(crate) struct Notes<'m> {
    pub(crate) name: String,
    pub(crate) missing: &'m mut BTreeMap<String, String>,
}

impl Notes<'_> {
    /// The figure, or nothing with its reason noted.
    pub(crate) fn kept<T>(&mut self, what: &str, figure: Result<T, Missing>) -> Option<T> {
        figure.map_err(|reason| self.missing.insert(format!("{}.{what}", self.name), reason.reason)).ok()
    }

    /// A figure as the record has it, with a note where it has no interval.
    pub(crate) fn figure(
        &mut self,
        what: &str,
        figure: Result<crate::figure::Figure, Missing>,
    ) -> Option<Figure> {
        let figure = self.kept(what, figure)?;
        if let Err(reason) = &figure.interval {
            self.missing.insert(format!("{}.{what}.low", self.name), reason.reason.clone());
        }
        Some(figure.into())
    }
}

//! The column of what loads were served in a second, or of the one figure that their command prints in place of that.

use super::section::{Column, measured};
use crate::number::three;

/// What the column holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RateColumn<'a> {
    /// What was served in a second.
    Served,
    /// Figures of commands, all in this unit.
    Figures(&'a str),
    /// Some of both, or figures in several units: each cell has its own.
    Mixed,
}

impl<'a> RateColumn<'a> {
    /// Of loads, each with the unit of its figure if it has one.
    pub(crate) fn of(units: impl Iterator<Item = Option<&'a str>>) -> Self {
        let of_one = |unit: Option<&'a str>| unit.map_or(Self::Served, Self::Figures);
        let both = |one: Self, other: Self| if one == other { one } else { Self::Mixed };
        units.map(of_one).reduce(both).unwrap_or(Self::Served)
    }

    /// Its head.
    pub(crate) fn head(self) -> Column {
        match self {
            Self::Served => measured("Served").unit("per s"),
            Self::Figures(unit) => measured("Figure").unit(unit.to_owned()),
            Self::Mixed => measured("Served or figure"),
        }
    }

    /// The figure of a load in it.
    pub(crate) fn cell(self, value: f64, unit: Option<&str>) -> String {
        match self {
            Self::Mixed => format!("{} {}", three(value), unit.unwrap_or("per s")),
            Self::Served | Self::Figures(_) => three(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_in_the_head_where_all_loads_have_it_and_else_in_each_cell() {
        let written = |units: &[Option<&str>]| {
            let column = RateColumn::of(units.iter().copied());
            let head = column.head();
            (head.head.into_owned(), head.unit, column.cell(4.0, units.first().copied().flatten()))
        };
        let unit = |unit: &'static str| Some(std::borrow::Cow::from(unit));
        assert_eq!(written(&[]), ("Served".to_owned(), unit("per s"), "4.00".to_owned()));
        assert_eq!(written(&[None, None]), ("Served".to_owned(), unit("per s"), "4.00".to_owned()));
        assert_eq!(written(&[Some("s"), Some("s")]), ("Figure".to_owned(), unit("s"), "4.00".to_owned()));
        assert_eq!(written(&[Some("s"), None]), ("Served or figure".to_owned(), None, "4.00 s".to_owned()));
        assert_eq!(written(&[None, Some("s")]).2, "4.00 per s");
        assert_eq!(written(&[Some("s"), Some("MB/s")]).2, "4.00 s");
    }
}

//! A part of the report as data. The page and the terminal each draw it with one function.

use super::Outcome;
use serde::Serialize;
use std::borrow::Cow;

/// A workload's part of the report.
pub(crate) struct Section {
    /// Its name in links.
    pub(crate) id: &'static str,
    /// Its head.
    pub(crate) title: &'static str,
    /// The word of the glossary that explains the head; empty if none does.
    pub(crate) word: &'static str,
    /// Texts and tables, in order.
    pub(crate) parts: Vec<Part>,
    /// The chart that the page draws beside its first table.
    pub(crate) beside: Option<Beside>,
    /// Where it is shown.
    pub(crate) place: Place,
    /// Its charts: the page's first screen has them in place of its own.
    pub(crate) charts: Vec<Chart>,
    /// Whether it is what the run was made for.
    pub(crate) is_answer: bool,
}

impl Section {
    /// Texts and tables.
    pub(crate) fn new(id: &'static str, title: &'static str, parts: Vec<Part>) -> Self {
        let place = Place::BelowSteps;
        Self { id, title, word: "", parts, beside: None, place, charts: Vec::new(), is_answer: false }
    }

    /// Whether it comes before the steps, in place of the chart of latencies.
    pub(crate) fn leads(&self) -> bool {
        !self.charts.is_empty() || self.is_answer
    }
}

/// Where a section is shown, from top to bottom. The charts of a section are on the first screen, and so is a section that is the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Before the steps, on the page only.
    First,
    /// The steps.
    Steps,
    /// Below the steps.
    BelowSteps,
    /// Below the charts of tiles and guests. The terminal has it after all others.
    BelowCharts,
    /// The same, on the page only.
    BelowChartsOfPage,
    /// At the end, on the page only.
    Last,
}

impl Place {
    /// Whether the terminal has it too.
    pub(crate) const fn is_in_terminal(self) -> bool {
        matches!(self, Self::Steps | Self::BelowSteps | Self::BelowCharts)
    }
}

/// A chart beside a table, drawn by the page's script from the data of the steps.
pub(crate) struct Beside {
    /// Its name in the page.
    pub(crate) id: &'static str,
    /// What it shows, for those who do not see it.
    pub(crate) about: &'static str,
}

/// What a section has below its head.
pub(crate) enum Part {
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
}

/// Rows under heads. What is missing in the first column's place is a row's own head.
#[derive(Default)]
pub(crate) struct Table {
    /// Its head; empty if it has none.
    pub(crate) title: &'static str,
    /// Its columns; the first is that of the rows' heads.
    pub(crate) columns: Vec<Column>,
    /// Its rows, group by group.
    pub(crate) groups: Vec<RowGroup>,
    /// What the marks of cells refer to; the first one is number 1.
    pub(crate) notes: Vec<String>,
    /// Columns that hold nothing at all, with the reason.
    pub(crate) absent: Vec<String>,
    /// What else is to be known of its columns.
    pub(crate) below: Vec<String>,
}

impl Table {
    /// A table of one group.
    pub(crate) fn new(columns: Vec<Column>, rows: Vec<Row>) -> Self {
        Self { columns, groups: vec![RowGroup { head: None, rows }], ..Self::default() }
    }

    /// All rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.groups.iter().flat_map(|group| &group.rows)
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Figures of this run: they can be struck through.
    Measured,
    /// Names of what a figure of this run is of: struck through with it.
    MeasuredName,
    /// What nothing in this run can spoil.
    Given,
    /// Words.
    Words,
    /// Whether a step holds.
    Outcome,
}

/// A column of a table.
#[derive(Clone)]
pub(crate) struct Column {
    /// Its head.
    pub(crate) head: Cow<'static, str>,
    /// Its unit, under the head.
    pub(crate) unit: Option<Cow<'static, str>>,
    /// The unit where room is scarce.
    pub(crate) short_unit: Option<&'static str>,
    /// The word of the glossary that explains it; empty if none does.
    pub(crate) word: &'static str,
    /// What it holds.
    pub(crate) holds: Holds,
    /// In a narrow terminal, columns with the largest number go first; those with 0 stay.
    pub(crate) dispensable: u8,
}

/// A column of figures that this run measured.
pub(crate) fn measured(head: impl Into<Cow<'static, str>>) -> Column {
    let head = head.into();
    Column { head, unit: None, short_unit: None, word: "", holds: Holds::Measured, dispensable: 0 }
}

/// A column of what nothing in this run can spoil.
pub(crate) fn given(head: impl Into<Cow<'static, str>>) -> Column {
    Column { holds: Holds::Given, ..measured(head) }
}

/// A column of words.
pub(crate) fn words(head: impl Into<Cow<'static, str>>) -> Column {
    Column { holds: Holds::Words, ..measured(head) }
}

impl Column {
    /// With a unit.
    pub(crate) fn unit(self, unit: impl Into<Cow<'static, str>>) -> Self {
        Self { unit: Some(unit.into()), ..self }
    }

    /// With a shorter unit where room is scarce.
    pub(crate) fn short_unit(self, unit: &'static str) -> Self {
        Self { short_unit: Some(unit), ..self }
    }

    /// With a word of the glossary.
    pub(crate) fn word(self, word: &'static str) -> Self {
        Self { word, ..self }
    }

    /// That may go in a narrow terminal.
    pub(crate) fn dispensable(self, dispensable: u8) -> Self {
        Self { dispensable, ..self }
    }

    /// The unit in a terminal.
    pub(crate) fn narrow_unit(&self) -> &str {
        self.short_unit.or(self.unit.as_deref()).unwrap_or_default()
    }

    /// Whether its cells begin at the left.
    pub(crate) fn is_left(&self) -> bool {
        matches!(self.holds, Holds::MeasuredName | Holds::Words | Holds::Outcome)
    }
}

/// Rows that belong together.
pub(crate) struct RowGroup {
    /// What is above them.
    pub(crate) head: Option<GroupHead>,
    /// The rows.
    pub(crate) rows: Vec<Row>,
}

/// What sets a group apart.
pub(crate) enum GroupHead {
    /// Its name.
    Named(String),
    /// Its figures prove function only.
    Emulated {
        /// Its name, if it needs one.
        name: Option<String>,
        /// What was proven.
        proof: String,
    },
}

/// The head of a group by its name.
pub(crate) fn group_named(name: &str) -> GroupHead {
    GroupHead::Named(name.to_owned())
}

/// A row: a head, and one or more lines beside it.
#[derive(Default)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) head: Cell,
    /// Its cells. The last cell of a line that has too few takes the rest of it.
    pub(crate) lines: Vec<Vec<Cell>>,
    /// Whether the step holds, where the table says so.
    pub(crate) outcome: Option<Outcome>,
    /// Whether its figures are struck through.
    pub(crate) struck: bool,
    /// Whether it proves function only.
    pub(crate) emulated: bool,
}

impl Row {
    /// A row of one line.
    pub(crate) fn new(head: impl Into<Cell>, cells: Vec<Cell>) -> Self {
        Self { head: head.into(), lines: vec![cells], ..Self::default() }
    }
}

/// What one cell says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Its figure or word.
    pub(crate) text: String,
    /// Beside it: an interval, or what it is of.
    pub(crate) aside: Option<String>,
    /// The note that says why there is no figure or no interval, or why it is undecided, counted from 1.
    pub(crate) note: Option<usize>,
    /// Whether it alone is struck through.
    pub(crate) struck: bool,
    /// How strong the colour behind it is, in percent, where a table shows sizes by colour.
    pub(crate) heat: Option<u8>,
}

impl Cell {
    const NONE: &str = "\u{2013}";

    /// A figure that may not have been measured.
    pub(crate) fn figure(text: Option<String>) -> Self {
        text.unwrap_or_else(|| Self::NONE.to_owned()).into()
    }

    /// With something beside it.
    pub(crate) fn beside(self, aside: Option<String>) -> Self {
        Self { aside, ..self }
    }

    /// Whether it has no figure.
    pub(crate) fn is_missing(&self) -> bool {
        self.text == Self::NONE
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// A chart of lines over named places, drawn by the page's script.
#[derive(Default, Serialize)]
pub(crate) struct Chart {
    /// Its name in the page.
    pub(crate) id: Cow<'static, str>,
    /// Its head.
    #[serde(skip)]
    pub(crate) title: Cow<'static, str>,
    /// What its axes are.
    #[serde(skip)]
    pub(crate) unit: Cow<'static, str>,
    /// What it shows, for those who do not see it.
    #[serde(skip)]
    pub(crate) about: Cow<'static, str>,
    /// The name of the horizontal axis.
    pub(crate) across: &'static str,
    /// Its places.
    pub(crate) places: Vec<String>,
    /// The name of the axis at the right, if there is one.
    pub(crate) right: Option<&'static str>,
    /// Its lines.
    pub(crate) series: Vec<Series>,
    /// Whether the axis at the left is fitted to the values, and does not begin at 0.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) zoomed: bool,
    /// Places before which something changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) marks: Vec<Mark>,
    /// Levels of the values over a part of the places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) levels: Vec<Level>,
}

const fn is_false(value: &bool) -> bool {
    !*value
}

/// An upright line before a place of a chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Mark {
    /// The place after it.
    pub(crate) place: usize,
    /// What changed there; empty where nothing did that is known.
    pub(crate) label: String,
    /// Whether the level of the values changed there.
    pub(crate) level: bool,
}

/// The level of the values from one place until before another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Level {
    /// The first place.
    pub(crate) from: usize,
    /// The place after the last one.
    pub(crate) to: usize,
    /// The level.
    pub(crate) value: f64,
}

/// A line of a chart.
#[derive(Serialize)]
pub(crate) struct Series {
    /// Its name.
    pub(crate) name: String,
    /// Its name in the legend; empty if it is not in it.
    pub(crate) legend: String,
    /// Lines of one number have one colour.
    pub(crate) colour: usize,
    /// How it is drawn.
    pub(crate) stroke: Stroke,
    /// Whether it belongs to the axis at the right.
    pub(crate) right: bool,
    /// In the order of places.
    pub(crate) points: Vec<SeriesPoint>,
}

impl Series {
    /// A line of the axis at the left, without points.
    pub(crate) fn new(name: &str, legend: &str, stroke: Stroke) -> Self {
        let (name, legend) = (name.to_owned(), legend.to_owned());
        Self { name, legend, colour: 0, stroke, right: false, points: Vec::new() }
    }

    /// On the axis at the right.
    pub(crate) fn at_right(self) -> Self {
        Self { right: true, ..self }
    }
}

/// How a line is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stroke {
    /// What this run measured.
    Main,
    /// The same on another axis.
    Dashed,
    /// Another figure of it.
    Dotted,
    /// What a paper published.
    Published,
    /// The same on another axis.
    PublishedDashed,
    /// Rings without a line: what does not count.
    Hollow,
    /// Dots without a line: places that do not follow each other, such as hosts.
    Dots,
    /// The same, of what is out of line.
    Odd,
}

/// A point of a line.
#[derive(Serialize)]
pub(crate) struct SeriesPoint {
    /// Which place.
    pub(crate) place: usize,
    /// Its value.
    pub(crate) value: f64,
    /// The ends of the bar through it.
    pub(crate) bar: Option<(f64, f64)>,
    /// What is shown on hover.
    pub(crate) lines: Vec<String>,
    /// Not to be trusted.
    pub(crate) struck: bool,
}

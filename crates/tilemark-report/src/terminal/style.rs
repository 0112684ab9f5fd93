//! How the terminal is drawn to.

/// Whether the terminal shows colours. Callers say [`Colour::Plain`] for `NO_COLOR` and for pipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// No escape sequence at all.
    Plain,
    /// The eight colours of every terminal.
    Ansi,
}

/// How the terminal is drawn to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether it shows colours.
    pub colour: Colour,
    /// Its columns; fewer than 40 count as 40.
    pub width: usize,
}

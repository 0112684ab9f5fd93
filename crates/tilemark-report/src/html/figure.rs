//! A figure of the page: its title, its unit, a legend, and the place where the page's script draws the chart.

use super::{markup::Markup, terms::term};

/// What a figure has.
pub(super) struct Figure<'a> {
    /// Its class in the style sheet.
    pub(super) class: &'a str,
    /// The beginning of its title, with the key of the glossary that explains it. Both are empty if none does.
    pub(super) term: (&'static str, &'static str),
    /// The title, or the rest of it.
    pub(super) title: &'a str,
    /// What its axes are.
    pub(super) unit: &'a str,
    /// Whether the script writes a legend.
    pub(super) has_legend: bool,
    /// Its name in the page, without `chart-`.
    pub(super) id: &'a str,
    /// What it shows, for those who do not see it.
    pub(super) about: &'a str,
    /// Why there is nothing to draw.
    pub(super) absent: Option<String>,
}

impl Default for Figure<'_> {
    /// One with a legend.
    fn default() -> Self {
        let (class, term, title, unit, id, about) = ("part", ("", ""), "", "", "", "");
        Self { class, term, title, unit, has_legend: true, id, about, absent: None }
    }
}

/// Writes a figure.
pub(super) fn figure(page: &mut Markup, figure: &Figure) {
    page.raw("<figure").attribute("class", figure.class).raw("><figcaption><h2>");
    term(page, figure.term.0, figure.term.1);
    page.text(figure.title).raw("</h2><span class=\"unit\">").text(figure.unit).raw("</span>");
    if figure.has_legend {
        page.raw("<div class=\"legend\"").attribute("id", &format!("legend-{}", figure.id)).raw("></div>");
    }
    page.raw("</figcaption>");
    match &figure.absent {
        Some(reason) => {
            page.raw("<div class=\"chart absent\"><p>No figures: ").text(reason).raw("</p></div>");
        }
        None => {
            page.raw("<div class=\"chart\"").attribute("id", &format!("chart-{}", figure.id));
            page.raw(" role=\"img\"").attribute("aria-label", figure.about).raw("></div>");
        }
    }
    page.raw("</figure>\n");
}

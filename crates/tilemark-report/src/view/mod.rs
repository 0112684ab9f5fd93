//! What belongs on the screen and in which order, before anybody decides how it looks. HTML, terminal and
//! charts are drawn from here, so that they cannot disagree.

mod charts;
mod groups;
mod messaging;
mod power;
mod rows;
mod scaling;
mod store;
mod timeline;
mod trust;

pub(crate) use charts::{Charts, charts, shares_shown};
pub(crate) use groups::{Axis, Group, Kind, View, backend_words, side_words};
pub(crate) use messaging::{LatencyPoint, Messaging, messaging};
pub(crate) use power::{POWER_ABOUT, power};
pub(crate) use rows::{COLUMNS, Cell, Outcome, Row, Table, limit_word, load_p99, measure_words, p99, table};
pub(crate) use scaling::{ScalingRow, scaling, scaling_doubt, scaling_missing};
pub(crate) use store::{StoreRow, store};
pub(crate) use trust::{Chip, capacity, chips, cost, gate_words, older_rule, proof, sentence, trust};

use tilemark_record::result::Provenance;

/// How long a run took: one session, or with `--more` several.
pub(crate) fn took(provenance: &Provenance) -> String {
    let time = crate::number::seconds(provenance.seconds);
    match provenance.sessions {
        0 | 1 => format!("took {time}"),
        sessions => format!("took {time} in {sessions} sessions"),
    }
}

/// A version of QEMU with its name before it.
pub(crate) fn qemu_words(version: &str) -> String {
    if version.to_ascii_lowercase().starts_with("qemu") {
        version.to_owned()
    } else {
        format!("QEMU {version}")
    }
}

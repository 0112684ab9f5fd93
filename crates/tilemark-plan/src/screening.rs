//! Which settings of the host pay: many are changed at once, in a design that lets the effect of each be read apart.
//!
//! ```text
//! design:   row 1, its mirror, row 2, its mirror ...   a setting is on in half of the rows, with every other one as often as without it
//! confirm:  nothing set, each that looked real alone, all that paid together ...   in turn, as two sides are
//! ```
//! A row and its mirror image, in which every setting has its other level, are measured one after the other. In the difference of the
//! two all that is the same in both cancels out: the level of the host at that time, and what two settings do together (decision 0071).

use crate::JsonSchema;
use crate::host_settings::HostSettings;
use serde::{Deserialize, Serialize};

/// The name under which a point's part in a screening is in [`vary`](crate::plan::Point::vary).
pub const SETTINGS: &str = "settings";

/// A screening of settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Screening {
    /// The profile that the settings come from.
    pub profile: String,
    /// The settings that are screened, in the order of the design's columns.
    pub settings: Vec<ScreenedSetting>,
    /// Settings of the profile that are not screened, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Rows of the design, without their mirror images.
    pub rows: u32,
    /// Pairs in which a setting that looks real is confirmed.
    pub pairs: u32,
}

/// A setting that is screened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScreenedSetting {
    /// Its key.
    pub key: String,
    /// The value that it has where it is on.
    pub value: String,
    /// The value found on the host, which it has where it is off; absent where it could not be read before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// What the profile says about its effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
}

/// A setting of the profile that is not screened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Its key.
    pub key: String,
    /// Why.
    pub why: String,
}

impl LeftOut {
    /// The keys of each reason, in the order of the profile.
    pub fn by_reason(all: &[Self]) -> Vec<(&str, Vec<&str>)> {
        let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
        for Self { key, why } in all {
            match by_reason.iter_mut().find(|(known, _)| known == why) {
                Some((_, keys)) => keys.push(key),
                None => by_reason.push((why, vec![key])),
            }
        }
        by_reason
    }
}

/// What a point is in a screening.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Screened {
    /// A row of the design.
    Row {
        /// Counted from 1.
        row: u32,
        /// Whether it is the row's mirror image.
        mirrored: bool,
    },
    /// Nothing is set: what the others are compared with.
    Nothing,
    /// One setting alone, by its key.
    Alone(String),
    /// All that looked as if they paid.
    Together,
}

impl Screened {
    /// Points of one group are compared with each other, block by block: a row with its mirror image, and all that confirms.
    pub const fn group(&self) -> u32 {
        match self {
            Self::Row { row, .. } => *row,
            Self::Nothing | Self::Alone(_) | Self::Together => 0,
        }
    }
}

impl std::fmt::Display for Screened {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Row { row, mirrored: false } => write!(formatter, "row {row}"),
            Self::Row { row, mirrored: true } => write!(formatter, "row {row} mirrored"),
            Self::Nothing => formatter.write_str("nothing set"),
            Self::Alone(key) => write!(formatter, "{key} alone"),
            Self::Together => formatter.write_str("all that paid"),
        }
    }
}

/// First rows of the designs of Plackett and Burman (Biometrika 33, 1946, pages 305 to 325), each shifted by one place for the next row; the
/// last row is all minus.
const FIRST_ROWS: [&str; 10] = [
    "++-",
    "+++-+--",
    "++-+++---+-",
    "++++-+-++--+---",
    "++--++++-+-+----++-",
    "+++++-+-++--++--+-+----",
    "----+-+-+++-++---+++++--++-+--+",
    "-+-+++---+++++-+++--+----+-+-++--+-",
    "++--+-+--+++-+++++---+-+++-----+---++-+-++-",
    "+++++-++++--+-+-+++--+--++-++---+-+-++----+----",
];

/// Most settings that one design screens.
pub const SETTINGS_MAX: usize = 47;
/// Fewest pairs of rows in all, so that intervals of a few settings are not wide.
const PAIRS_MIN: u32 = 24;
/// Fewest differences beyond those that the effects take, so that the scatter is known.
const DEGREES_MIN: u32 = 8;

/// A design: which settings are on in which row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Design {
    /// Row by row, one level for each setting.
    rows: Vec<Vec<bool>>,
}

impl Design {
    /// The smallest design for so many settings; `None` of none, or of more than [`SETTINGS_MAX`].
    pub fn of(settings: usize) -> Option<Self> {
        let first = FIRST_ROWS.iter().find(|row| settings > 0 && row.len() >= settings)?;
        let first: Vec<bool> = first.bytes().map(|sign| sign == b'+').collect();
        let columns = first.len();
        let shifted = |by: usize| (0..settings).map(|at| first[(at + columns - by) % columns]).collect();
        let rows = (0..columns).map(shifted).chain([vec![false; settings]]);
        Some(Self { rows: rows.collect() })
    }

    /// Its rows, without their mirror images.
    pub fn rows(&self) -> &[Vec<bool>] {
        &self.rows
    }

    /// How often each row and its mirror image are measured, unless the user says another number.
    pub fn repeats(&self) -> u32 {
        let rows = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let settings = u32::try_from(self.rows[0].len()).unwrap_or(u32::MAX);
        PAIRS_MIN.max(settings + DEGREES_MIN).div_ceil(rows)
    }
}

impl Screening {
    /// Its design.
    ///
    /// # Panics
    /// Where it has no setting, or more than [`SETTINGS_MAX`]: no plan is made of such.
    pub fn design(&self) -> Design {
        Design::of(self.settings.len()).expect("checked when the plan was made")
    }

    /// What is set where these settings are on.
    pub fn host_settings(&self, is_on: impl Fn(&ScreenedSetting) -> bool) -> HostSettings {
        let on = self.settings.iter().filter(|setting| is_on(setting));
        HostSettings {
            setting: on.map(|setting| (setting.key.clone(), setting.value.clone())).collect(),
            ..HostSettings::default()
        }
    }

    /// Every point of the design, with what is set in it.
    pub(crate) fn of_design(&self) -> Vec<(Screened, HostSettings)> {
        let mut points = Vec::new();
        for (row, levels) in (1..).zip(self.design().rows()) {
            for mirrored in [false, true] {
                let mut levels = levels.iter().map(|level| *level != mirrored);
                let is_on = std::cell::RefCell::new(&mut levels);
                let set = self.host_settings(|_| is_on.borrow_mut().next().unwrap_or(false));
                points.push((Screened::Row { row, mirrored }, set));
            }
        }
        points
    }

    /// Points that confirm these settings, by their keys: nothing set, each alone, and all that paid together where they are several.
    pub fn confirming(&self, real: &[String], paid: &[String]) -> Vec<(Screened, HostSettings)> {
        let mut points = vec![(Screened::Nothing, HostSettings::default())];
        let alone =
            |key: &String| (Screened::Alone(key.clone()), self.host_settings(|setting| setting.key == *key));
        points.extend(real.iter().map(alone));
        if paid.len() > 1 {
            points.push((Screened::Together, self.host_settings(|setting| paid.contains(&setting.key))));
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signs(design: &Design) -> Vec<Vec<i32>> {
        design.rows.iter().map(|row| row.iter().map(|on| if *on { 1 } else { -1 }).collect()).collect()
    }

    #[test]
    fn every_setting_is_on_in_half_of_the_rows_and_with_every_other_one_as_often_as_without_it() {
        for first in FIRST_ROWS {
            let rows = signs(&Design::of(first.len()).unwrap());
            assert_eq!(rows.len(), first.len() + 1);
            for one in 0..first.len() {
                assert_eq!(rows.iter().map(|row| row[one]).sum::<i32>(), 0, "{first} {one}");
                for other in 0..one {
                    let product: i32 = rows.iter().map(|row| row[one] * row[other]).sum();
                    assert_eq!(product, 0, "{first}: {one} and {other}");
                }
            }
        }
    }

    #[test]
    fn with_the_mirror_images_no_effect_is_mixed_with_what_two_settings_do_together() {
        let rows = signs(&Design::of(11).unwrap());
        let folded: Vec<Vec<i32>> =
            rows.iter().flat_map(|row| [row.clone(), row.iter().map(|sign| -sign).collect()]).collect();
        let mixed = |rows: &[Vec<i32>]| {
            let of = |main: usize, one: usize, other: usize| {
                rows.iter().map(|row| row[main] * row[one] * row[other]).sum::<i32>() != 0
            };
            (0..11).any(|main| {
                (0..11).any(|one| (0..one).any(|other| main != one && main != other && of(main, one, other)))
            })
        };
        assert!(mixed(&rows), "without them it is: that is why they are measured");
        assert!(!mixed(&folded));
    }

    #[test]
    fn the_smallest_design_is_taken_and_measured_often_enough_to_know_the_scatter() {
        for (settings, rows, repeats) in
            [(1, 4, 6), (3, 4, 6), (4, 8, 3), (11, 12, 2), (12, 16, 2), (20, 24, 2), (47, 48, 2)]
        {
            let design = Design::of(settings).unwrap();
            assert_eq!((design.rows.len(), design.repeats()), (rows, repeats), "{settings}");
        }
        assert_eq!(Design::of(0), None);
        assert_eq!(Design::of(SETTINGS_MAX + 1), None);
    }
}

//! One verdict for a fleet: what its hosts carry, whether those of equal hardware are alike, which differ, and what changed since an
//! earlier run of the same fleet.
//!
//! ```text
//! fleets/ID -read-> newest whole record of each host -group-> equal hardware and settings -judge-> FleetVerdict
//!                     + its facts                               + one step that all of a group have    -> page, text, JSON
//! ```
//! A host whose files are damaged is named and stops nobody: the others are judged. A record is whole where its manifest is there and
//! the files that are read here are those of the manifest.

mod confirm;
mod confirmed;
mod drift;
mod facts;
mod failures;
mod group;
mod judge;
mod measure;
mod read;
mod sentence;
mod step;
mod threads;

pub use confirm::{ToConfirm, Unconfirmable, of_confirmed, to_confirm};
pub use drift::compare;
pub use group::Groups;
pub use read::VerdictError;
pub use tilemark_report::{FleetDrift, FleetOutcome, FleetVerdict};

use std::path::Path;

/// The verdict of a fleet run, hosts grouped by their hardware and settings.
///
/// # Errors
/// When the folder cannot be read, or has more hosts than any fleet. A damaged file of a host is no error: it is named in the verdict.
pub fn of(folder: &Path) -> Result<FleetVerdict, VerdictError> {
    of_grouped(folder, &Groups::new())
}

/// The verdict of a fleet run whose groups the user chose. Hosts that measured other scenarios, or on another backend, are not put
/// together even so.
///
/// # Errors
/// As [`of`].
pub fn of_grouped(folder: &Path, groups: &Groups) -> Result<FleetVerdict, VerdictError> {
    let fleet = read::fleet(folder)?;
    Ok(judge::verdict(&fleet, groups, None))
}

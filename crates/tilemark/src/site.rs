//! What a site file says for this host.

use crate::{arguments::SiteFile, fleet_failure::failure};
use tilemark_run::{WantedBridge, failure::Failure, plan::prepare::Asked};
use tilemark_site::{Network, Site};

/// The same with what the site file says for a run on this host.
///
/// # Errors
/// When that file cannot be read, or is wrong.
pub(crate) fn with_site(asked: Asked, file: &SiteFile) -> Result<Asked, Failure> {
    let site = site(file)?;
    Ok(Asked { network: site.as_ref().and_then(wanted_bridge), site, ..asked })
}

/// The site of a site file, where one was given.
///
/// # Errors
/// When that file cannot be read, or is wrong.
pub(crate) fn site(file: &SiteFile) -> Result<Option<Site>, Failure> {
    file.site.as_deref().map(Site::read_for_run).transpose().map_err(failure)
}

/// The user's own bridge, where a site names one.
pub(crate) fn wanted_bridge(site: &Site) -> Option<WantedBridge> {
    let wanted = |Network { bridge, first, last }| WantedBridge { bridge, first, last };
    site.network.clone().map(wanted)
}

//! TLS to a database, as its address wants it.

use tilemark_tls::{Tls, Trust};

use crate::address::{CertificateCheck, DatabaseAddress, Endpoint};
use crate::error::StoreError;

/// How the connections to that database are secured; `None`: they are not.
pub(crate) fn of(address: &DatabaseAddress) -> Result<Option<Tls>, StoreError> {
    let (Some(wanted), Endpoint::Tcp { host, .. }) = (&address.tls, &address.endpoint) else {
        return Ok(None);
    };
    let failed = |reason| StoreError::Authorities { address: address.to_string(), reason };
    let ca = || wanted.ca.as_deref().ok_or_else(|| failed("none were read".to_owned()));
    let trust = match wanted.check {
        CertificateCheck::Any => Trust::Anybody,
        CertificateCheck::Authority => Trust::Authorities(ca()?),
        CertificateCheck::AuthorityAndName => Trust::AuthoritiesAndName(ca()?),
    };
    Tls::to_host(host, trust).map(Some).map_err(failed)
}

//! How long a server may take to let somebody in.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::address::DatabaseAddress;
use crate::error::StoreError;

/// Far longer than a busy server in an emulated guest needs.
const LET_IN_WITHIN: Duration = Duration::from_secs(60);

/// Opens a connection. The libraries limit how long the network may take and not how long the server does: one that is
/// stopped accepts and says nothing.
pub(crate) fn open<C: Send + 'static>(
    address: &DatabaseAddress,
    open: impl FnOnce(&DatabaseAddress) -> Result<C, StoreError> + Send + 'static,
) -> Result<C, StoreError> {
    open_within(LET_IN_WITHIN, address, open)
}

/// On a thread of its own, which is left to itself when the time is over.
fn open_within<C: Send + 'static>(
    limit: Duration,
    address: &DatabaseAddress,
    open: impl FnOnce(&DatabaseAddress) -> Result<C, StoreError> + Send + 'static,
) -> Result<C, StoreError> {
    let (sender, opened) = mpsc::channel();
    let asked = address.clone();
    // Nobody listens any more when it took too long: then the connection is dropped.
    thread::spawn(move || drop(sender.send(open(&asked))));
    opened.recv_timeout(limit).unwrap_or_else(|_| {
        let source = format!("it takes connections and has said nothing for {} s", limit.as_secs()).into();
        Err(StoreError::Down { address: address.to_string(), source })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_console::open_console_at;
    use std::net::TcpListener;

    #[test]
    fn a_server_that_says_nothing_is_down() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = silent.local_addr().unwrap();
        for scheme in ["mysql", "postgres"] {
            let address = format!("{scheme}://web:tiger@{place}/store").parse().unwrap();
            let refused = open_within(Duration::from_secs(1), &address, open_console_at).map(drop);
            let error = refused.unwrap_err().with_causes();
            assert!(
                error.contains("no database answers at") && error.contains("said nothing for 1 s"),
                "{error}"
            );
        }
    }
}

//! What needs the power over a kernel: names, addresses, mounts. In a guest the serving process has it, since the kernel is the
//! guest's own. In a native twin the kernel is the host's: there process 1 keeps the power, does these few things when it is asked
//! to, and everything else is in a sandbox.
//!
//! ```text
//! host -> `serve-socket`, services, loads, programs (walls) -> order -> process 1 (power) -> mount, address, name
//! ```

use crate::{
    data_disk::{DataDisk, MountedDisk},
    error::{AgentError, step},
    identity::{Names, Network},
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};
use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixDatagram},
    thread,
};
use tilemark_sys::process::take_handed;
use tilemark_units::with_causes;

/// The number under which the serving process of a twin has its end of the socket to process 1.
pub(crate) const POWER_NUMBER: i32 = 4;
/// An order and an answer are shorter.
const MESSAGE_BYTES: usize = 4096;

/// All that process 1 of a twin does for others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Order {
    TakeNames(Names),
    Mount(DataDisk),
    Unmount(DataDisk),
}

/// Who has the power.
pub(crate) enum Power {
    /// This process.
    Own(Own),
    /// Process 1, at the other end.
    Asked(UnixDatagram),
}

/// The power, and what was done with it.
#[derive(Default)]
pub(crate) struct Own {
    network: Option<Network>,
    /// Whether others have named its network device.
    is_of_disk: bool,
    mounted: Vec<MountedDisk>,
}

impl Own {
    fn execute(&mut self, order: Order) -> Result<(), AgentError> {
        match order {
            Order::TakeNames(names) => {
                rustix::system::sethostname(names.host_name.as_bytes()).map_err(step("set the host name"))?;
                // A twin's network device comes from the host, later than the twin.
                let network = match &mut self.network {
                    Some(network) => network,
                    missing if self.is_of_disk => missing.insert(Network::found(names.mac)?),
                    missing => missing.insert(Network::prepare()?),
                };
                network.take(&names)
            }
            Order::Mount(disk) => {
                self.mounted.push(disk.mount()?);
                Ok(())
            }
            Order::Unmount(disk) => {
                let Some(place) = self.mounted.iter().position(|mounted| mounted.disk == disk) else {
                    return Ok(());
                };
                self.mounted[place].unmount()?;
                self.mounted.remove(place);
                Ok(())
            }
        }
    }
}

impl Power {
    /// In a guest. Its network device is there from the start.
    pub(crate) fn of_guest() -> Result<Self, AgentError> {
        Ok(Self::Own(Own { network: Some(Network::prepare()?), ..Own::default() }))
    }

    /// In a guest that boots from a disk of the user's own: its network device is found by the address that the guest is given.
    pub(crate) fn of_disk() -> Self {
        Self::Own(Own { is_of_disk: true, ..Own::default() })
    }

    /// In a twin: the socket that was handed at the start.
    pub(crate) fn of_twin() -> Result<Self, AgentError> {
        let socket = take_handed(POWER_NUMBER).map_err(step("take the socket to process 1"))?;
        Ok(Self::Asked(UnixDatagram::from(socket)))
    }

    /// Host name, hardware address and address.
    pub(crate) fn take_names(&mut self, names: Names) -> Result<(), AgentError> {
        self.execute(Order::TakeNames(names))
    }

    /// Mounts a data disk on its folder.
    pub(crate) fn mount(&mut self, disk: DataDisk) -> Result<(), AgentError> {
        self.execute(Order::Mount(disk))
    }

    /// Unmounts a data disk. One that is not mounted is no error.
    pub(crate) fn unmount(&mut self, disk: DataDisk) -> Result<(), AgentError> {
        self.execute(Order::Unmount(disk))
    }

    fn execute(&mut self, order: Order) -> Result<(), AgentError> {
        match self {
            Self::Own(own) => own.execute(order),
            Self::Asked(socket) => ask(socket, &order),
        }
    }
}

fn ask(socket: &UnixDatagram, order: &Order) -> Result<(), AgentError> {
    let message = postcard::to_stdvec(order).map_err(io::Error::other).map_err(step("ask process 1"))?;
    socket.send(&message).map_err(step("ask process 1"))?;
    let mut buffer = [0; MESSAGE_BYTES];
    let length = socket.recv(&mut buffer).map_err(step("hear from process 1"))?;
    if length == 0 {
        return Err(AgentError::Power("process 1 answers no more".to_owned()));
    }
    let answer: Result<(), String> = postcard::from_bytes(&buffer[..length])
        .map_err(io::Error::other)
        .map_err(step("understand process 1"))?;
    answer.map_err(AgentError::Power)
}

/// Process 1 of a twin from here on does what the other end asks for. Gives that other end.
pub(crate) fn serve() -> Result<OwnedFd, AgentError> {
    // Messages stay whole, and an end that is gone is reported.
    let (own, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(step("make a socket to the serving process"))?;
    let own = UnixDatagram::from(own);
    let begun = thread::Builder::new().name("power".to_owned()).spawn(move || {
        let mut power = Own::default();
        let mut buffer = [0; MESSAGE_BYTES];
        // When the other end is gone, so is this namespace.
        while let Ok(length @ 1..) = own.recv(&mut buffer) {
            let order: Result<Order, _> = postcard::from_bytes(&buffer[..length]);
            let done = match order {
                Ok(order) => power.execute(order).map_err(|error| shortened(with_causes(&error))),
                Err(error) => Err(format!("process 1 does not know such an order: {error}")),
            };
            let Ok(answer) = postcard::to_stdvec(&done) else { return };
            if own.send(&answer).is_err() {
                return;
            }
        }
    });
    begun.map_err(step("start the thread that serves"))?;
    Ok(other)
}

/// What fits into a message beside its own bytes.
fn shortened(text: String) -> String {
    text.chars().take(MESSAGE_BYTES / 8).collect()
}

//! A guest of the tile.

use super::{broker::BrokerService, disk::Disk, place::HugePageSize, ready::Ready, role::Role};
use crate::{JsonSchema, left_out::is_default};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tilemark_units::{Bytes, Span};

/// The guests of one tile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// Its name, unique in the tile, such as `web`: 1 to 40 of `a` to `z`, `0` to `9` and `-`. Guests of a run are called `tile-003-NAME`.
    pub name: String,
    /// A disk of your own that it boots from: a cloud image, as a `qcow2` or raw file, by its path from the scenario's folder. It is never
    /// written to, and what runs in it is the disk's own. See [own-disks.md](own-disks.md). Default: none, the guest has the scenario's
    /// `image`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// With `from`: how long it may take until Tilemark's agent answers in it, at most `3600s`. Default: `600s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boots_within: Option<Span>,
    /// What it is for; this decides which service runs in it. Default: none. A guest needs `role`, `services`, `run` or `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The services that run in it, in the order in which they are started; each must answer before the next one starts. In place of
    /// `role`, which is the short form for one. Default: the one of `role`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<Role>,
    /// Memory that each service sizes itself by, as in `{ database = "256MiB" }`. Default: an equal part of the guest's memory for each of
    /// its services.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub service_memory: BTreeMap<Role, Bytes>,
    /// A folder of the image with your own pages: the web server serves its files in place of ours, and PHP runs those that end in
    /// `.php`. A path that is not a file goes to its `index.php`. PHP reaches the guest's own MariaDB as `root` at `localhost`, without a
    /// password. Default: none. For a guest with the service `web`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<String>,
    /// An SQL file of the image: MariaDB runs it once, when the database is made. Default: none. For a guest with the service `database`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,
    /// A program of your own, with its arguments: it is started after the services, as root, and runs until the guest ends. Its output is in
    /// the guest's console. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<String>,
    /// When `run` is ready. Without `run`, in a guest with `from`: when the disk's own service is ready. Default: none. `run` needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// Virtual processors: at most as many as the host has threads.
    #[serde(default = "one")]
    pub vcpus: u32,
    /// Memory: at least `64MiB`.
    #[serde(default = "default_memory")]
    pub memory: Bytes,
    /// Memory that a clone writes before the load's warm-up. A clone shares memory with its template; a guest that boots has
    /// written this memory itself. Default: 40 % of its memory, at most 100 MiB, in a scenario with a load; nothing in one without, which
    /// measures a density.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<Bytes>,
    /// Data disks.
    #[serde(default)]
    pub disk: Vec<Disk>,
    /// Its network device. Default: one queue, served by QEMU.
    #[serde(default, skip_serializing_if = "is_default")]
    pub net: Net,
    /// Which broker runs in a guest with role `broker`. `rabbitmq` and `qpid-broker-j` need at least 512 MiB of memory,
    /// better 1 GiB, and the image `brokers`, which is used where a scenario names no other. In emulated guests they
    /// take minutes to start.
    #[serde(default)]
    pub broker: BrokerService,
    /// The guest of the tile with role `backend` that its dynamic pages ask. Default: a back end in the guest itself. For a guest with role
    /// `web`, which serves such pages for `load.sessions`. The two guests can then reach each other on the run network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// Size of the huge pages that its memory consists of. Default: the kernel's ordinary pages. The host must have enough free ones
    /// before it starts, and it must be booted. A native twin has no memory of its own, and so none of these pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hugepages: Option<HugePageSize>,
}

fn one() -> u32 {
    1
}
fn default_memory() -> Bytes {
    Bytes::from_mib(256)
}

impl Guest {
    /// The roles of its services in the order of their start.
    pub fn roles(&self) -> Vec<Role> {
        let mut roles =
            if self.services.is_empty() { self.role.into_iter().collect() } else { self.services.clone() };
        let waits = self.from.is_some() && self.ready.is_some();
        if (waits || !self.run.is_empty()) && !roles.contains(&Role::Program) {
            roles.push(Role::Program);
        }
        if self.from.is_some() && roles.is_empty() {
            roles.push(Role::Idle);
        }
        roles
    }

    /// Whether one of its services is of that role.
    pub fn serves(&self, role: Role) -> bool {
        self.roles().contains(&role)
    }

    /// Its roles for people: `` `web`, `database` ``.
    pub fn said_roles(&self) -> String {
        self.roles().iter().map(|role| format!("`{}`", role.name())).collect::<Vec<_>>().join(", ")
    }
}

/// A guest's network device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Net {
    /// Queues in each direction: at most as many as the guest has processors, and at most 16.
    pub queues: u32,
    /// Whether the host's kernel moves the frames (`vhost-net`) instead of QEMU. The host needs `/dev/vhost-net`.
    pub vhost: bool,
}

impl Default for Net {
    fn default() -> Self {
        Self { queues: 1, vhost: false }
    }
}

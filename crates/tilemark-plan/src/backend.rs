//! How guests run, and what each way costs: a row of a table for each.

use crate::JsonSchema;
use crate::scenario::measure::Start;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How guests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// QEMU with the processor's own virtualization.
    Kvm,
    /// QEMU's translator. Proves function; its figures are no measure of hardware.
    Emulated,
    /// Namespaces on the host kernel, no guest.
    Native,
}

/// What guests of a backend cost. Times until something is ready are expected ones, rough, from two busy processors; time
/// limits are for the slowest host.
#[derive(Debug)]
pub struct Costs {
    /// Time until booted guests are ready.
    boot: StartTime,
    /// Time until cloned guests are ready.
    clone: StartTime,
    /// Seconds to make a template; nothing where guests have none.
    pub(crate) template: Option<f64>,
    /// Seconds in which a third-party broker starts with its runtime, one guest on a quiet host. On one at seven times its load,
    /// natively 9 to 15 s were measured, emulated 77 to 223 s; under KVM it was not tried.
    pub(crate) third_party_broker: f64,
    /// Seconds in which a database starts on its disk and is audited: measured with 20 MB, on a busy host.
    pub(crate) database: f64,
    /// Seconds in which a cloud image boots and cloud-init ends, one guest on a quiet host: 52 s were measured emulated; under KVM it was
    /// not tried.
    pub(crate) own_disk: f64,
    /// How long a database may take: it reads its disk before it answers.
    pub database_within: Duration,
    /// How long a service may leave its load waiting. When a load that goes as fast as it can has sent its last message, many are in
    /// buffers before the broker.
    pub timeout: Duration,
    /// How long a load waits at least for its last answers after its end; limits of a gate may make it longer (`Point::drain`). An
    /// emulated guest shares its thread with many others.
    pub drain: Duration,
    /// How long a load from outside may take after its measurement, to receive the last answers and to report its totals.
    pub afterwards: Duration,
}

/// Seconds until guests are ready: once, and for each of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartTime {
    pub(crate) once: f64,
    pub(crate) each: f64,
}

const fn seconds(once: f64, each: f64) -> StartTime {
    StartTime { once, each }
}

const KVM: Costs = Costs {
    boot: seconds(2.0, 0.6),
    clone: seconds(0.8, 0.15),
    template: Some(3.0),
    third_party_broker: 8.0,
    database: 5.0,
    own_disk: 20.0,
    database_within: Duration::from_secs(120),
    timeout: Duration::from_secs(15),
    drain: Duration::from_secs(2),
    afterwards: Duration::from_secs(60),
};

const EMULATED: Costs = Costs {
    boot: seconds(4.0, 4.0),
    clone: seconds(1.0, 0.25),
    template: Some(9.0),
    third_party_broker: 90.0,
    database: 40.0,
    own_disk: 60.0,
    database_within: Duration::from_secs(120),
    timeout: Duration::from_secs(120),
    drain: Duration::from_secs(120),
    afterwards: Duration::from_secs(300),
};

const NATIVE: Costs = Costs {
    boot: seconds(0.6, 0.015),
    clone: seconds(0.6, 0.015),
    template: None,
    third_party_broker: 5.0,
    database: 2.0,
    own_disk: 0.0,
    database_within: Duration::from_secs(20),
    timeout: Duration::from_secs(15),
    drain: Duration::from_secs(2),
    afterwards: Duration::from_secs(60),
};

impl Backend {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Kvm, Self::Emulated, Self::Native];

    /// The name as flags and files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Emulated => "emulated",
            Self::Native => "native",
        }
    }

    /// What its guests cost.
    pub const fn costs(self) -> &'static Costs {
        match self {
            Self::Kvm => &KVM,
            Self::Emulated => &EMULATED,
            Self::Native => &NATIVE,
        }
    }
}

impl Costs {
    pub(crate) const fn start(&self, start: Start) -> StartTime {
        match start {
            Start::Boot => self.boot,
            Start::Clone => self.clone,
        }
    }
}

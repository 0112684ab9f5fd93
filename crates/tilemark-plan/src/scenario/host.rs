//! The table `[host]` of a scenario.

use crate::{JsonSchema, host_settings};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where loads and guests run, and what is set on the host meanwhile.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostTable {
    /// Which processors the load has.
    pub load_processors: LoadProcessors,
    /// Settings of the host that are applied before the guests of a repeat start and restored after it: the name of a profile inside the
    /// program, the path of a profile, or `"none"`. Default: `"none"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Single settings of the host, over those of the profile: `host.setting.KEY = VALUE`, as in `host.setting.vm.swappiness = 10` or
    /// `host.setting.ksm = "off"`. A value is text, a number, or `true` and `false` for 1 and 0. Default: none.
    #[serde(deserialize_with = "host_settings::texts", skip_serializing_if = "BTreeMap::is_empty")]
    pub setting: BTreeMap<String, String>,
}

/// Which processors the load has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadProcessors {
    /// A quarter of the threads, at least one, which no guest uses. Where cores have several threads: a quarter of the cores.
    #[default]
    Own,
    /// Load and guests share all.
    Shared,
}

//! The services of a guest as a plan has them, each with the memory that it sizes itself by.

use crate::{
    JsonSchema,
    scenario::{guest::Guest, ready::Ready, role::Role},
};
use serde::{Deserialize, Serialize};
use tilemark_units::Bytes;

/// A service of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServicePlan {
    /// Which.
    pub role: Role,
    /// Memory that it sizes itself by.
    pub memory: Bytes,
    /// A program of the user's own with its arguments; empty for every other role.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<String>,
    /// When that program is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// The folder of the image with the pages of a web server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<String>,
    /// The SQL file of the image that a database is made by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,
}

impl ServicePlan {
    /// A service that knows nothing but its role and its memory.
    pub const fn of(role: Role, memory: Bytes) -> Self {
        Self { role, memory, run: Vec::new(), ready: None, pages: None, sql: None }
    }
}

impl Guest {
    /// Its services as they are planned; none where it has the one of its role, which has all of its memory.
    pub(crate) fn service_plans(&self) -> Vec<ServicePlan> {
        let roles = self.roles();
        let is_plain = self.service_memory.is_empty() && self.pages.is_none() && self.sql.is_none();
        if roles.len() == 1 && roles[0] != Role::Program && is_plain {
            return Vec::new();
        }
        let part = Bytes::new(self.memory.get() / (roles.len().max(1) as u64));
        let plan = |role: &Role| {
            let memory = self.service_memory.get(role).copied().unwrap_or(part);
            let planned = ServicePlan::of(*role, memory);
            match role {
                Role::Program => ServicePlan { run: self.run.clone(), ready: self.ready.clone(), ..planned },
                Role::Web => ServicePlan { pages: self.pages.clone(), ..planned },
                Role::Database => ServicePlan { sql: self.sql.clone(), ..planned },
                _ => planned,
            }
        };
        roles.iter().map(plan).collect()
    }
}

//! Commands that need no keeper: loads and data alone, the broker, `doctor`.

pub mod broker;
pub mod doctor;
mod interruptible;
pub mod messaging;
pub mod password;
mod port;
pub mod store_data;
pub mod store_load;
pub mod trust;
pub mod web_load;

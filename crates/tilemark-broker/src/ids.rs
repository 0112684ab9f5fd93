//! What names a connection, a queue and a consumer inside the broker.

use crate::slab::Key;

pub(crate) type ConnectionId = Key;
pub(crate) type QueueId = Key;
pub(crate) type ConsumerId = Key;

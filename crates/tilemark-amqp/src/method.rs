//! Every method of AMQP 0-9-1, with RabbitMQ's extensions that clients rely on.

use crate::wire::Field;
use crate::{DecodeError, Decoder, Encoder, LongStr, ShortStr, Table};

/// The class of all contents.
pub const BASIC_CLASS: u16 = 60;

macro_rules! methods {
    ($($name:ident = ($class:literal, $id:literal) { $($field:ident : $type:ty),* $(,)? })*) => {
        /// A method with its arguments, borrowed from the receive buffer. Names and order are the specification's;
        /// its reserved arguments are kept as `reserved`, so that encoding returns what was read.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[allow(missing_docs, reason = "the specification documents methods and arguments under these names")]
        pub enum Method<'a> {
            $($name { $($field: $type),* },)*
        }

        impl<'a> Method<'a> {
            /// Reads the payload of a method frame; all of it must be used.
            pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
                let mut from = Decoder::new(payload);
                let class = from.short()?;
                let method = from.short()?;
                let decoded = match (class, method) {
                    $(($class, $id) => Self::$name { $($field: Field::decode(&mut from)?),* },)*
                    _ => return Err(DecodeError::UnknownMethod { class, method }),
                };
                from.finish()?;
                Ok(decoded)
            }

            /// Writes class, method and arguments.
            pub fn encode(&self, to: &mut Encoder<'_>) {
                let (class, method) = self.ids();
                to.raw(&class.to_be_bytes());
                to.raw(&method.to_be_bytes());
                match self {
                    $(Self::$name { $($field),* } => { $($field.encode(to);)* })*
                }
            }

            /// Class and method id, as `connection.close` and `channel.close` name the offender.
            pub const fn ids(&self) -> (u16, u16) {
                match self {
                    $(Self::$name { .. } => ($class, $id),)*
                }
            }

            /// The method's name in this crate.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => stringify!($name),)*
                }
            }
        }
    };
}

methods! {
    ConnectionStart = (10, 10) { version_major: u8, version_minor: u8, server_properties: Table<'a>, mechanisms: LongStr<'a>, locales: LongStr<'a> }
    ConnectionStartOk = (10, 11) { client_properties: Table<'a>, mechanism: ShortStr<'a>, response: LongStr<'a>, locale: ShortStr<'a> }
    ConnectionSecure = (10, 20) { challenge: LongStr<'a> }
    ConnectionSecureOk = (10, 21) { response: LongStr<'a> }
    ConnectionTune = (10, 30) { channel_max: u16, frame_max: u32, heartbeat: u16 }
    ConnectionTuneOk = (10, 31) { channel_max: u16, frame_max: u32, heartbeat: u16 }
    ConnectionOpen = (10, 40) { virtual_host: ShortStr<'a>, reserved_1: ShortStr<'a>, reserved_2: bool }
    ConnectionOpenOk = (10, 41) { reserved_1: ShortStr<'a> }
    ConnectionClose = (10, 50) { reply_code: u16, reply_text: ShortStr<'a>, class_id: u16, method_id: u16 }
    ConnectionCloseOk = (10, 51) {}
    ConnectionBlocked = (10, 60) { reason: ShortStr<'a> }
    ConnectionUnblocked = (10, 61) {}
    ConnectionUpdateSecret = (10, 70) { new_secret: LongStr<'a>, reason: ShortStr<'a> }
    ConnectionUpdateSecretOk = (10, 71) {}
    ChannelOpen = (20, 10) { reserved_1: ShortStr<'a> }
    ChannelOpenOk = (20, 11) { reserved_1: LongStr<'a> }
    ChannelFlow = (20, 20) { active: bool }
    ChannelFlowOk = (20, 21) { active: bool }
    ChannelClose = (20, 40) { reply_code: u16, reply_text: ShortStr<'a>, class_id: u16, method_id: u16 }
    ChannelCloseOk = (20, 41) {}
    AccessRequest = (30, 10) { realm: ShortStr<'a>, exclusive: bool, passive: bool, active: bool, write: bool, read: bool }
    AccessRequestOk = (30, 11) { ticket: u16 }
    ExchangeDeclare = (40, 10) { reserved_1: u16, exchange: ShortStr<'a>, kind: ShortStr<'a>, passive: bool, durable: bool, auto_delete: bool, internal: bool, no_wait: bool, arguments: Table<'a> }
    ExchangeDeclareOk = (40, 11) {}
    ExchangeDelete = (40, 20) { reserved_1: u16, exchange: ShortStr<'a>, if_unused: bool, no_wait: bool }
    ExchangeDeleteOk = (40, 21) {}
    ExchangeBind = (40, 30) { reserved_1: u16, destination: ShortStr<'a>, source: ShortStr<'a>, routing_key: ShortStr<'a>, no_wait: bool, arguments: Table<'a> }
    ExchangeBindOk = (40, 31) {}
    ExchangeUnbind = (40, 40) { reserved_1: u16, destination: ShortStr<'a>, source: ShortStr<'a>, routing_key: ShortStr<'a>, no_wait: bool, arguments: Table<'a> }
    ExchangeUnbindOk = (40, 51) {}
    QueueDeclare = (50, 10) { reserved_1: u16, queue: ShortStr<'a>, passive: bool, durable: bool, exclusive: bool, auto_delete: bool, no_wait: bool, arguments: Table<'a> }
    QueueDeclareOk = (50, 11) { queue: ShortStr<'a>, message_count: u32, consumer_count: u32 }
    QueueBind = (50, 20) { reserved_1: u16, queue: ShortStr<'a>, exchange: ShortStr<'a>, routing_key: ShortStr<'a>, no_wait: bool, arguments: Table<'a> }
    QueueBindOk = (50, 21) {}
    QueuePurge = (50, 30) { reserved_1: u16, queue: ShortStr<'a>, no_wait: bool }
    QueuePurgeOk = (50, 31) { message_count: u32 }
    QueueDelete = (50, 40) { reserved_1: u16, queue: ShortStr<'a>, if_unused: bool, if_empty: bool, no_wait: bool }
    QueueDeleteOk = (50, 41) { message_count: u32 }
    QueueUnbind = (50, 50) { reserved_1: u16, queue: ShortStr<'a>, exchange: ShortStr<'a>, routing_key: ShortStr<'a>, arguments: Table<'a> }
    QueueUnbindOk = (50, 51) {}
    BasicQos = (60, 10) { prefetch_size: u32, prefetch_count: u16, global: bool }
    BasicQosOk = (60, 11) {}
    BasicConsume = (60, 20) { reserved_1: u16, queue: ShortStr<'a>, consumer_tag: ShortStr<'a>, no_local: bool, no_ack: bool, exclusive: bool, no_wait: bool, arguments: Table<'a> }
    BasicConsumeOk = (60, 21) { consumer_tag: ShortStr<'a> }
    BasicCancel = (60, 30) { consumer_tag: ShortStr<'a>, no_wait: bool }
    BasicCancelOk = (60, 31) { consumer_tag: ShortStr<'a> }
    BasicPublish = (60, 40) { reserved_1: u16, exchange: ShortStr<'a>, routing_key: ShortStr<'a>, mandatory: bool, immediate: bool }
    BasicReturn = (60, 50) { reply_code: u16, reply_text: ShortStr<'a>, exchange: ShortStr<'a>, routing_key: ShortStr<'a> }
    BasicDeliver = (60, 60) { consumer_tag: ShortStr<'a>, delivery_tag: u64, redelivered: bool, exchange: ShortStr<'a>, routing_key: ShortStr<'a> }
    BasicGet = (60, 70) { reserved_1: u16, queue: ShortStr<'a>, no_ack: bool }
    BasicGetOk = (60, 71) { delivery_tag: u64, redelivered: bool, exchange: ShortStr<'a>, routing_key: ShortStr<'a>, message_count: u32 }
    BasicGetEmpty = (60, 72) { reserved_1: ShortStr<'a> }
    BasicAck = (60, 80) { delivery_tag: u64, multiple: bool }
    BasicReject = (60, 90) { delivery_tag: u64, requeue: bool }
    BasicRecoverAsync = (60, 100) { requeue: bool }
    BasicRecover = (60, 110) { requeue: bool }
    BasicRecoverOk = (60, 111) {}
    BasicNack = (60, 120) { delivery_tag: u64, multiple: bool, requeue: bool }
    ConfirmSelect = (85, 10) { no_wait: bool }
    ConfirmSelectOk = (85, 11) {}
    TxSelect = (90, 10) {}
    TxSelectOk = (90, 11) {}
    TxCommit = (90, 20) {}
    TxCommitOk = (90, 21) {}
    TxRollback = (90, 30) {}
    TxRollbackOk = (90, 31) {}
}

/// What a server needs of `basic.publish`, read without building a [`Method`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishArguments<'a> {
    /// Exchange and routing key as two short strings, as they are on the wire: `basic.deliver` carries them the same way.
    pub route: &'a [u8],
    /// The exchange; empty is the default exchange.
    pub exchange: ShortStr<'a>,
    /// The routing key.
    pub routing_key: ShortStr<'a>,
    /// Return the message when no queue takes it.
    pub mandatory: bool,
    /// Return the message when no consumer can take it at once.
    pub immediate: bool,
}

impl<'a> PublishArguments<'a> {
    /// The bytes with which the payload of a `basic.publish` starts: class 60, method 40.
    pub const START: [u8; 4] = [0, 60, 0, 40];
    /// Class and method, as a close names them.
    pub const IDS: (u16, u16) = (60, 40);

    /// Reads the payload of a method frame that starts with [`PublishArguments::START`].
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(payload.get(6..).ok_or(DecodeError::Truncated)?);
        let fields = from.rest();
        let exchange = from.short_str()?;
        let routing_key = from.short_str()?;
        let route = &fields[..fields.len() - from.rest().len()];
        let bits = from.octet()?;
        from.finish()?;
        Ok(Self { route, exchange, routing_key, mandatory: bits & 1 != 0, immediate: bits & 2 != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_way_to_read_a_publish_agrees_with_the_long_way() {
        let publish = Method::BasicPublish {
            reserved_1: 0,
            exchange: ShortStr::cut("amq.topic"),
            routing_key: ShortStr::cut("a.b"),
            mandatory: true,
            immediate: false,
        };
        let mut payload = Vec::new();
        publish.encode(&mut Encoder::new(&mut payload));
        assert_eq!(payload[..4], PublishArguments::START);
        let arguments = PublishArguments::decode(&payload).unwrap();
        assert_eq!(arguments.route, b"\x09amq.topic\x03a.b");
        assert_eq!(arguments.exchange.as_bytes(), b"amq.topic");
        assert_eq!(arguments.routing_key.as_bytes(), b"a.b");
        assert!(arguments.mandatory && !arguments.immediate);
        for length in 4..payload.len() {
            assert_eq!(PublishArguments::decode(&payload[..length]), Err(DecodeError::Truncated));
        }
    }

    #[test]
    fn a_method_that_does_not_exist_is_refused_as_invalid_command() {
        let error = Method::decode(&[0, 60, 0, 41]).unwrap_err();
        assert_eq!(error, DecodeError::UnknownMethod { class: 60, method: 41 });
        assert_eq!(error.reply_code().number(), 503);
    }

    #[test]
    fn bytes_after_the_last_argument_are_a_syntax_error() {
        let error = Method::decode(&[0, 20, 0, 41, 0]).unwrap_err();
        assert_eq!(error, DecodeError::Trailing(1));
        assert_eq!(error.reply_code().number(), 502);
    }
}

//! AMQP 0-9-1 on the wire: a codec for the hot path.

//! From the first octet to an open connection.

use tilemark_amqp::{LongStr, Method, ReplyCode, ShortStr, Table, TableBuilder, Value, put_method};

use super::BrokerCore;
use crate::connection::{CHANNEL_MAX, Capabilities, FRAME_MAX, Phase};
use crate::exception::Exception;
use crate::ids::ConnectionId;

impl BrokerCore {
    /// Sends a method on a channel.
    pub(super) fn send(&mut self, id: ConnectionId, channel: u16, method: &Method<'_>) {
        if let Some(connection) = self.connections.get_mut(id) {
            put_method(connection.outbox.buffer(), channel, method);
            self.touch(id);
        }
    }

    pub(super) fn send_start(&mut self, id: ConnectionId) {
        let capabilities = TableBuilder::new()
            .truth("publisher_confirms", true)
            .truth("basic.nack", true)
            .truth("consumer_cancel_notify", true)
            .truth("connection.blocked", true)
            .truth("per_consumer_qos", true)
            .truth("authentication_failure_close", true);
        let properties = TableBuilder::new()
            .text("product", "Tilemark reference broker")
            .text("version", env!("CARGO_PKG_VERSION"))
            .text("platform", "Linux")
            .table("capabilities", &capabilities);
        let start = Method::ConnectionStart {
            version_major: 0,
            version_minor: 9,
            server_properties: properties.as_table(),
            mechanisms: LongStr(b"PLAIN"),
            locales: LongStr(b"en_US"),
        };
        self.send(id, 0, &start);
        self.enter(id, Phase::StartOk);
    }

    fn enter(&mut self, id: ConnectionId, phase: Phase) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.enter(phase, self.now);
        }
    }

    /// Methods of class connection, before and after it is open.
    pub(super) fn connection_method(
        &mut self,
        id: ConnectionId,
        method: &Method<'_>,
    ) -> Result<(), Exception> {
        let Some(connection) = self.connections.get(id) else { return Ok(()) };
        match (connection.phase, method) {
            (Phase::StartOk, Method::ConnectionStartOk { client_properties, mechanism, response, .. }) => {
                self.authenticate(id, *client_properties, *mechanism, *response)
            }
            (Phase::TuneOk, Method::ConnectionTuneOk { .. }) => self.tune(id, method),
            (Phase::Open, Method::ConnectionOpen { virtual_host, .. }) => self.open(id, *virtual_host),
            (Phase::Running, Method::ConnectionUpdateSecret { .. }) => {
                Err(Exception::new(ReplyCode::NotImplemented, "secrets do not expire here"))
            }
            (_, Method::ConnectionClose { .. }) => {
                self.send(id, 0, &Method::ConnectionCloseOk {});
                self.leave(id);
                self.enter(id, Phase::Ended);
                Ok(())
            }
            (phase, _) => {
                let text = format!("{} is not expected in state {phase:?}", method.name());
                Err(Exception::new(ReplyCode::CommandInvalid, text))
            }
        }
    }

    fn authenticate(
        &mut self,
        id: ConnectionId,
        properties: Table<'_>,
        mechanism: ShortStr<'_>,
        response: LongStr<'_>,
    ) -> Result<(), Exception> {
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        connection.capabilities = capabilities(properties);
        if mechanism.as_bytes() != b"PLAIN" {
            let text = format!("mechanism {mechanism} is not offered, only PLAIN");
            return Err(Exception::new(ReplyCode::CommandInvalid, text));
        }
        // RFC 4616: authorization identity, NUL, user, NUL, password.
        let mut parts = response.0.splitn(3, |&byte| byte == 0).skip(1);
        let (Some(name), Some(password)) = (parts.next(), parts.next()) else {
            return Err(Exception::new(ReplyCode::SyntaxError, "malformed PLAIN response"));
        };
        if self.users.iter().any(|user| user.admits(name, password, connection.origin)) {
            connection.user = name.into();
            let heartbeat = self.limits.heartbeat_s;
            let frame_max = u32::try_from(FRAME_MAX).expect("128 KiB");
            self.send(id, 0, &Method::ConnectionTune { channel_max: CHANNEL_MAX, frame_max, heartbeat });
            self.enter(id, Phase::TuneOk);
            return Ok(());
        }
        if connection.capabilities.authentication_failure_close {
            let text = "wrong user or password, or guest from another machine";
            return Err(Exception::new(ReplyCode::AccessRefused, text));
        }
        // The specification: a client that did not ask for a reason sees the socket close.
        self.enter(id, Phase::Ended);
        self.touch(id);
        Ok(())
    }

    fn tune(&mut self, id: ConnectionId, method: &Method<'_>) -> Result<(), Exception> {
        let Method::ConnectionTuneOk { channel_max, frame_max, heartbeat } = *method else { return Ok(()) };
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        let frame_max = if frame_max == 0 { FRAME_MAX } else { frame_max as usize };
        if !(tilemark_amqp::FRAME_MIN_SIZE..=FRAME_MAX).contains(&frame_max) {
            let text = format!("frame size {frame_max} is not between 4096 and {FRAME_MAX}");
            return Err(Exception::new(ReplyCode::NotAllowed, text));
        }
        let channel_max = if channel_max == 0 { CHANNEL_MAX } else { channel_max };
        if channel_max > CHANNEL_MAX {
            let text = format!("{channel_max} channels are more than the {CHANNEL_MAX} that were offered");
            return Err(Exception::new(ReplyCode::NotAllowed, text));
        }
        connection.frame_max = frame_max;
        connection.channel_max = channel_max;
        connection.heartbeat = heartbeat;
        self.enter(id, Phase::Open);
        Ok(())
    }

    fn open(&mut self, id: ConnectionId, virtual_host: ShortStr<'_>) -> Result<(), Exception> {
        if virtual_host.as_bytes() != b"/" {
            let text = format!("virtual host '{virtual_host}' does not exist; this broker has only '/'");
            return Err(Exception::new(ReplyCode::NotAllowed, text));
        }
        self.send(id, 0, &Method::ConnectionOpenOk { reserved_1: ShortStr::default() });
        self.enter(id, Phase::Running);
        Ok(())
    }
}

fn capabilities(properties: Table<'_>) -> Capabilities {
    let Some(Value::Table(table)) = properties.get("capabilities") else { return Capabilities::default() };
    let has = |name| table.get(name) == Some(Value::Bool(true));
    Capabilities {
        blocked: has("connection.blocked"),
        cancel_notify: has("consumer_cancel_notify"),
        authentication_failure_close: has("authentication_failure_close"),
    }
}

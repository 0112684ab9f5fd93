"""Real exchanges by pika, another client, against a broker: pika_client.py PORT SCENARIO [ARGUMENT].

Each scenario ends with exit code 0 when the broker behaved as AMQP 0-9-1 and RabbitMQ's extensions promise.
"""
import sys

import pika
from pika import BasicProperties, exceptions


def connect(port):
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(port), heartbeat=30))


def take(channel, queue, count):
    bodies = []
    for method, _, body in channel.consume(queue, inactivity_timeout=10):
        assert method is not None, f"only {len(bodies)} of {count} messages came"
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(bodies) == count:
            break
    channel.cancel()
    return bodies


def publish_and_consume(port):
    connection = connect(port)
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    assert queue.startswith("amq.gen-"), queue
    properties = BasicProperties(
        content_type="text/plain",
        headers={"a": 1, "b": "two", "c": [1, 2], "d": {"e": True}, "f": None},
        correlation_id="42",
        reply_to="x",
        timestamp=1234567890,
        priority=0,
    )
    bodies = [b"%d" % n for n in range(1000)] + [b"", b"x" * 300_000]
    for body in bodies:
        channel.basic_publish("", queue, body, properties)
    assert take(channel, queue, len(bodies)) == bodies
    channel.basic_publish("", queue, b"last", properties)
    method, seen, body = channel.basic_get(queue)
    assert body == b"last" and seen == properties, (seen, properties)
    assert not method.redelivered and method.message_count == 0
    connection.close()


def confirm_and_return(port):
    connection = connect(port)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("confirmed", auto_delete=True)
    channel.basic_publish("", "confirmed", b"x", mandatory=True)
    try:
        channel.basic_publish("", "nowhere", b"back", mandatory=True)
        raise AssertionError("an unroutable message was not returned")
    except exceptions.UnroutableError as error:
        assert error.messages[0].body == b"back"
    channel.queue_declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"}, exclusive=True)
    channel.basic_publish("", "full", b"1")
    try:
        channel.basic_publish("", "full", b"2")
        raise AssertionError("a full queue did not refuse")
    except exceptions.NackError:
        pass
    connection.close()


def nack_and_requeue(port):
    connection = connect(port)
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for n in range(4):
        channel.basic_publish("", queue, b"%d" % n)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(4)]
    channel.basic_nack(tags[2], multiple=True, requeue=True)
    channel.basic_reject(tags[3], requeue=False)
    seen = [channel.basic_get(queue, auto_ack=True) for _ in range(3)]
    assert [body for _, _, body in seen] == [b"0", b"1", b"2"], seen
    assert all(method.redelivered for method, _, _ in seen)
    assert channel.basic_get(queue) == (None, None, None)
    connection.close()


def transactions(port):
    connection = connect(port)
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    other = connection.channel()
    channel.tx_select()
    channel.basic_publish("", queue, b"rolled back")
    channel.tx_rollback()
    channel.basic_publish("", queue, b"committed")
    assert other.basic_get(queue)[2] is None
    channel.tx_commit()
    assert other.basic_get(queue, auto_ack=True)[2] == b"committed"
    assert other.basic_get(queue)[2] is None
    connection.close()


def topics_and_fanout(port):
    connection = connect(port)
    channel = connection.channel()
    channel.exchange_declare("news", "topic", auto_delete=True)
    channel.exchange_declare("all", "fanout", auto_delete=True)
    queues = {}
    for pattern in ["*.uk", "sport.#", "#"]:
        queues[pattern] = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queues[pattern], "news", pattern)
        channel.queue_bind(queues[pattern], "all")
    for key in ["sport.uk", "weather.uk", "sport.fr.paris", "x"]:
        channel.basic_publish("news", key, key.encode())
    channel.basic_publish("all", "ignored", b"all")

    def drain(queue):
        bodies = []
        while (body := channel.basic_get(queue, auto_ack=True)[2]) is not None:
            bodies.append(body.decode())
        return bodies

    assert drain(queues["*.uk"]) == ["sport.uk", "weather.uk", "all"]
    assert drain(queues["sport.#"]) == ["sport.uk", "sport.fr.paris", "all"]
    assert drain(queues["#"]) == ["sport.uk", "weather.uk", "sport.fr.paris", "x", "all"]
    connection.close()


def errors(port):
    connection = connect(port)
    for code, act in [
        (404, lambda channel: channel.queue_declare("absent", passive=True)),
        (406, lambda channel: channel.exchange_declare("amq.direct", "fanout")),
        (403, lambda channel: channel.queue_declare("amq.mine")),
        (404, lambda channel: channel.basic_consume("absent", print)),
    ]:
        channel = connection.channel()
        try:
            act(channel)
            raise AssertionError(f"no error {code}")
        except exceptions.ChannelClosedByBroker as error:
            assert error.reply_code == code, error
    locked = connection.channel().queue_declare("", exclusive=True).method.queue
    other = connect(port)
    try:
        other.channel().queue_declare(locked, passive=True)
        raise AssertionError("an exclusive queue was open to another connection")
    except exceptions.ChannelClosedByBroker as error:
        assert error.reply_code == 405, error
    other.close()
    connection.close()
    wrong = pika.ConnectionParameters("127.0.0.1", int(port), credentials=pika.PlainCredentials("guest", "wrong"))
    try:
        pika.BlockingConnection(wrong)
        raise AssertionError("a wrong password was taken")
    except (exceptions.ProbableAuthenticationError, exceptions.AuthenticationError):
        pass


def store(port):
    """Confirmed, persistent, some of it acknowledged; the broker is killed after this."""
    connection = connect(port)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("kept", "topic", durable=True)
    channel.queue_declare("kept", durable=True)
    channel.queue_bind("kept", "kept", "k.#")
    persistent = BasicProperties(delivery_mode=2, headers={"n": 1})
    for n in range(100):
        channel.basic_publish("kept", "k.x", b"%d" % n, persistent)
    channel.basic_publish("kept", "k.x", b"transient")
    for n in range(10):
        method, _, body = channel.basic_get("kept")
        assert body == b"%d" % n
        channel.basic_ack(method.delivery_tag)
    # A persistent confirm behind the acknowledgements: when it is here, they are stored, too.
    channel.basic_publish("kept", "k.y", b"end", persistent)
    channel.basic_get("kept")  # delivered, not acknowledged


def recovered(port):
    connection = connect(port)
    channel = connection.channel()
    channel.exchange_declare("kept", "topic", durable=True, passive=True)
    found = channel.queue_declare("kept", durable=True)
    assert found.method.message_count == 91, found
    method, properties, body = channel.basic_get("kept")
    assert body == b"10" and method.exchange == "kept" and method.routing_key == "k.x", (body, method)
    assert properties.headers == {"n": 1} and properties.delivery_mode == 2 and method.redelivered
    channel.basic_ack(method.delivery_tag)
    assert take(channel, "kept", 90) == [b"%d" % n for n in range(11, 100)] + [b"end"]
    channel.queue_delete("kept")
    channel.exchange_delete("kept")
    connection.close()


def publish_until_killed(port):
    """Confirmed and persistent, one after the other; prints each number once it is confirmed."""
    channel = connect(port).channel()
    channel.confirm_delivery()
    channel.queue_declare("busy", durable=True)
    persistent = BasicProperties(delivery_mode=2)
    number = 0
    try:
        while True:
            channel.basic_publish("", "busy", b"%d" % number, persistent)
            print(number, flush=True)
            number += 1
    except exceptions.AMQPError:
        pass


def confirmed_are_there(port, confirmed):
    """The one that was under way when the broker was killed may be there, too."""
    connection = connect(port)
    channel = connection.channel()
    count = channel.queue_declare("busy", durable=True).method.message_count
    assert int(confirmed) <= count <= int(confirmed) + 1, (confirmed, count)
    assert take(channel, "busy", count) == [b"%d" % number for number in range(count)]
    connection.close()


globals()[sys.argv[2]](sys.argv[1], *sys.argv[3:])

"""Real exchanges by pika, another client, against a broker: pika_client.py PORT SCENARIO [ARGUMENT].

Each scenario ends with exit code 0 when the broker behaved as AMQP 0-9-1 and RabbitMQ's extensions promise. Where TILEMARK_TEST_CA
names a file, connections use TLS: one of its certificates must have signed the broker's, for localhost.
"""
import os
import ssl
import sys

import pika
from pika import BasicProperties, exceptions


def parameters(port, **more):
    ca = os.environ.get("TILEMARK_TEST_CA")
    tls = pika.SSLOptions(ssl.create_default_context(cafile=ca), "localhost") if ca else None
    return pika.ConnectionParameters("127.0.0.1", int(port), ssl_options=tls, **more)


def connect(port):
    return pika.BlockingConnection(parameters(port, heartbeat=30))


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
    wrong = parameters(port, credentials=pika.PlainCredentials("guest", "wrong"))
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


def taken(channel, queue):
    """What is in a queue, as (body, headers without times, expiration), once it has stopped growing."""
    seen = []
    waits = 0
    while waits < 20:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            waits += 1
            channel.connection.sleep(0.01)
            continue
        headers = dict(properties.headers or {})
        for death in headers.get("x-death", []):
            death.pop("time")
        seen.append((body.decode(), headers, properties.expiration))
    return seen


def wait_for(channel, queue, count):
    """Waits until a queue has so many messages."""
    for _ in range(1000):
        if channel.queue_declare(queue, passive=True).method.message_count == count:
            return
        channel.connection.sleep(0.01)
    raise AssertionError(f"{queue} never had {count} messages")


def death(queue, reason, count=1, keys=None, exchange="", **more):
    event = {"count": count, "reason": reason, "queue": queue, "exchange": exchange, "routing-keys": keys or [queue]}
    return {**event, **{name.replace("_", "-"): value for name, value in more.items()}}


def first(queue, reason, exchange=""):
    return {"x-first-death-queue": queue, "x-first-death-reason": reason, "x-first-death-exchange": exchange}


def dead_letters(port):
    connection = connect(port)
    channel = connection.channel()
    channel.queue_declare("dead", exclusive=True)
    to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("work", exclusive=True, arguments={**to_dead, "x-max-length": 1})
    channel.basic_publish("", "work", b"too much")
    channel.basic_publish("", "work", b"rejected", BasicProperties(headers={"own": 1}))
    wait_for(channel, "dead", 1)
    channel.basic_reject(channel.basic_get("work")[0].delivery_tag, requeue=False)
    wait_for(channel, "dead", 2)
    channel.basic_publish("", "work", b"over", BasicProperties(expiration="20"))
    wait_for(channel, "dead", 3)
    assert taken(channel, "dead") == [
        ("too much", {**first("work", "maxlen"), "x-death": [death("work", "maxlen")]}, None),
        ("rejected", {**first("work", "rejected"), "own": 1, "x-death": [death("work", "rejected")]}, None),
        ("over", {**first("work", "expired"), "x-death": [death("work", "expired", original_expiration="20")]}, None),
    ]
    # From one queue to the next and back: it ends where it would be again without anybody's rejection.
    def two_queues(first_queue, second_queue, *times):
        for queue, following, time in zip([first_queue, second_queue], [second_queue, first_queue], times):
            arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": following, **time}
            channel.queue_declare(queue, exclusive=True, arguments=arguments)

    two_queues("one", "two", {"x-message-ttl": 20}, {"x-message-ttl": 1000})
    channel.basic_publish("", "one", b"round")
    wait_for(channel, "two", 1)
    wait_for(channel, "two", 0)
    assert taken(channel, "one") == []
    # With a rejection it goes on, and its deaths are counted. The queue that we read keeps its messages: a client that
    # is slow must find them.
    two_queues("kept", "back", {}, {"x-message-ttl": 20})
    channel.basic_publish("", "kept", b"again")
    for _ in range(2):
        wait_for(channel, "kept", 1)
        channel.basic_reject(channel.basic_get("kept")[0].delivery_tag, requeue=False)
    wait_for(channel, "kept", 1)
    ((_, headers, _),) = taken(channel, "kept")
    deaths = [death("back", "expired", 2), death("kept", "rejected", 2)]
    assert headers == {**first("kept", "rejected"), "x-death": deaths}, headers
    connection.close()


def keys_of_dead_letters(port):
    connection = connect(port)
    channel = connection.channel()
    channel.exchange_declare("dlx", "direct", auto_delete=True)
    channel.queue_declare("work", exclusive=True, arguments={"x-dead-letter-exchange": "dlx"})
    for queue in ["work", "more"]:
        channel.queue_declare(queue + "-dead", exclusive=True)
        channel.queue_bind(queue + "-dead", "dlx", queue)
    channel.basic_publish("", "work", b"x", BasicProperties(headers={"CC": ["more"]}))
    channel.basic_reject(channel.basic_get("work")[0].delivery_tag, requeue=False)
    for queue in ["work-dead", "more-dead"]:
        wait_for(channel, queue, 1)
        headers = {"CC": ["more"], **first("work", "rejected"), "x-death": [death("work", "rejected", keys=["work", "more"])]}
        assert taken(channel, queue) == [("x", headers, None)]
    connection.close()


def expiry(port):
    connection = connect(port)
    channel = connection.channel()
    channel.queue_declare("short", exclusive=True, arguments={"x-message-ttl": 50})
    channel.basic_publish("", "short", b"queue's", BasicProperties(expiration="60000"))
    channel.basic_publish("", "short", b"own", BasicProperties(expiration="1"))
    wait_for(channel, "short", 0)
    channel.queue_declare("plain", exclusive=True)
    channel.basic_publish("", "plain", b"in front", BasicProperties(expiration="60000"))
    channel.basic_publish("", "plain", b"behind", BasicProperties(expiration="1"))
    channel.basic_publish("", "plain", b"last", BasicProperties(priority=7))
    channel.connection.sleep(0.05)
    assert taken(channel, "plain") == [("in front", {}, "60000"), ("last", {}, None)]
    # Without any time it goes to a consumer that waits, or to nobody.
    bodies = []
    channel.basic_consume("plain", lambda *message: bodies.append(message[3]), auto_ack=True)
    channel.basic_publish("", "plain", b"at once", BasicProperties(expiration="0"))
    channel.basic_publish("", "short", b"nobody", BasicProperties(expiration="0"))
    for _ in range(500):
        if bodies:
            break
        connection.process_data_events(0.01)
    assert bodies == [b"at once"] and taken(channel, "short") == []
    for wrong in ["soon", "-1", ""]:
        refused = connection.channel()
        refused.basic_publish("", "plain", b"x", BasicProperties(expiration=wrong))
        try:
            refused.queue_declare("plain", passive=True)
            raise AssertionError(f"expiration {wrong!r} was taken")
        except exceptions.ChannelClosedByBroker as error:
            assert error.reply_code == 406, error
    connection.close()


def headers_and_exchanges(port):
    connection = connect(port)
    channel = connection.channel()
    for exchange, kind in [("by-headers", "headers"), ("words", "topic"), ("everybody", "fanout")]:
        channel.exchange_declare(exchange, kind)
    channel.exchange_declare("entry", "direct", arguments={"alternate-exchange": "everybody"})
    try:
        for queue in ["all", "any", "some-x", "both"]:
            channel.queue_declare(queue, exclusive=True)
        channel.queue_bind("all", "by-headers", "", {"x-match": "all", "a": 1, "b": "two"})
        channel.queue_bind("any", "by-headers", "", {"x-match": "any", "a": 1, "b": "two"})
        channel.queue_bind("some-x", "by-headers", "", {"x-match": "any-with-x", "x-c": True})
        channel.exchange_bind("by-headers", "words", "h.#")
        channel.exchange_bind("words", "entry", "h.k")
        channel.exchange_bind("entry", "words", "h.k")
        channel.queue_bind("both", "words", "h.*")
        channel.queue_bind("both", "everybody")
        for key, headers, expected in [
            ("h.k", {"a": 1, "b": "two"}, ["all", "any", "both"]),
            ("h.k", {"a": 1, "b": "three"}, ["any", "both"]),
            ("h.k", {"a": "1"}, ["both"]),
            ("h.k", {"x-c": True}, ["some-x", "both"]),
            ("elsewhere", {"a": 1}, ["both"]),
        ]:
            channel.basic_publish("entry", key, b"x", BasicProperties(headers=headers))
            for queue in expected:
                wait_for(channel, queue, 1)
            for queue in ["all", "any", "some-x", "both"]:
                assert len(taken(channel, queue)) == (queue in expected), (key, headers, queue)
        copies = {"CC": ["any"], "BCC": ["some-x"], "other": 1}
        channel.basic_publish("", "all", b"x", BasicProperties(headers=copies))
        for queue in ["all", "any", "some-x"]:
            wait_for(channel, queue, 1)
            assert taken(channel, queue) == [("x", {"CC": ["any"], "other": 1}, None)]
        channel.exchange_unbind("by-headers", "words", "h.#")
        channel.basic_publish("entry", "h.k", b"x", BasicProperties(headers={"a": 1}))
        wait_for(channel, "both", 1)
        assert taken(channel, "any") == []
    finally:
        clean = connection.channel()
        for exchange in ["by-headers", "words", "everybody", "entry"]:
            clean.exchange_delete(exchange)
    refused = connection.channel()
    refused.queue_declare("all", exclusive=True)
    try:
        refused.queue_bind("all", "amq.headers", "", {"x-match": "most"})
        raise AssertionError("x-match 'most' was taken")
    except exceptions.ChannelClosedByBroker as error:
        assert error.reply_code == 406, error
    connection.close()


globals()[sys.argv[2]](sys.argv[1], *sys.argv[3:])

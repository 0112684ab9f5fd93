"""A Celery application against a broker: the worker's tasks, and as a program what a client asks of them.

`celery --app celery_app worker` is the worker, `python3 celery_app.py` the client; TILEMARK_TEST_PORT is the broker's port. The client ends
with exit code 0 when each task was done as Celery promises.
"""
import os
import time

from celery import Celery, chain, group
from celery.exceptions import TaskRevokedError
from kombu import Exchange, Queue

WITHIN = 120

app = Celery("celery_app", broker=f"amqp://guest:guest@127.0.0.1:{os.environ['TILEMARK_TEST_PORT']}//", backend="rpc://")
app.conf.update(result_expires=300, worker_prefetch_multiplier=2, task_acks_late=True, worker_send_task_events=True)


@app.task
def add(left, right):
    return left + right


@app.task(bind=True, max_retries=3)
def fails_at_first(self, times):
    if self.request.retries < times:
        raise self.retry(countdown=0.1)
    return self.request.retries


@app.task
def fails():
    raise ValueError("as planned")


@app.task
def repeat(text, times):
    return text * times


def refused(arguments):
    """Why a queue with these arguments is refused."""
    with app.connection_for_write() as connection:
        try:
            Queue("refused", Exchange("refused"), "r", queue_arguments=arguments).bind(connection.default_channel).declare()
        except Exception as error:
            return str(error)
    raise AssertionError(f"a queue with {arguments} was declared")


def client():
    results = [add.delay(number, number) for number in range(200)]
    assert [result.get(timeout=WITHIN) for result in results] == [2 * number for number in range(200)]
    assert fails_at_first.delay(2).get(timeout=WITHIN) == 2
    try:
        fails.delay().get(timeout=WITHIN)
        raise AssertionError("a task that fails returned a result")
    except ValueError as error:
        assert str(error) == "as planned"
    began = time.monotonic()
    assert add.apply_async((1, 2), countdown=0.5).get(timeout=WITHIN) == 3
    assert time.monotonic() - began >= 0.5, "a task ran before its time"
    assert add.apply_async((1, 2), expires=WITHIN, priority=5).get(timeout=WITHIN) == 3
    assert len(repeat.delay("x", 300_000).get(timeout=WITHIN)) == 300_000
    assert chain(add.s(1, 2), add.s(3))().get(timeout=WITHIN) == 6
    assert group(add.s(number, 1) for number in range(10))().get(timeout=WITHIN) == list(range(1, 11))
    # The worker gets orders through a fanout exchange, and answers through a queue of the asker's own.
    answered = app.control.broadcast("ping", reply=True, limit=1, timeout=WITHIN)
    assert len(answered) == 1 and {"ok": "pong"} in answered[0].values(), answered
    # Long enough for the order to reach the worker on a busy machine.
    revoked = add.apply_async((1, 2), countdown=5)
    revoked.revoke()
    try:
        revoked.get(timeout=WITHIN)
        raise AssertionError("a revoked task ran")
    except TaskRevokedError:
        pass
    assert "argument 'x-max-priority' of a queue is not supported" in refused({"x-max-priority": 10})
    assert "'quorum'" in refused({"x-queue-type": "quorum"})


if __name__ == "__main__":
    client()

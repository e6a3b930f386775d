"""The producers: two processes that enqueue, round after round."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from stoker import Call
from stoker.demo.tasks import app, film, letter, order, report

ROUNDS, LETTERS, TENANTS = 38, 12, ("ann", "bob", "cleo")
TITLES = ("Metropolis", "The General", "Safety Last")


def letters(number: int) -> list[Call]:
    """A round of letters."""
    first = number * LETTERS
    return [letter.call(first + i) for i in range(LETTERS)]


def orders(number: int) -> list[Call]:
    """An order of each tenant; now and then a report; and the films, to begin with."""
    calls = [order.options(key=tenant).call(f"item {number}") for tenant in TENANTS]
    if number % 4 == 0:
        calls.append(report.call())
    if number == 0:
        calls.extend(film.options(meta=title).call(title) for title in TITLES)
    return calls


def produce(calls: Callable[[int], list[Call]], told: Connection) -> None:
    """Enqueue; in the end, tell how many jobs were acknowledged."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    enqueued = 0
    for number in range(ROUNDS):
        enqueued += len(app.enqueue_many(calls(number)))
        time.sleep(0.2)
    app.close()
    told.send(enqueued)


def end_with_parent() -> None:
    """Should the show be killed, nobody is left behind."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="orphan-watch", daemon=True).start()

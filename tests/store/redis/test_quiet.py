"""A connection that waits for rings, and of which nobody says that none will come any more."""

from __future__ import annotations

from contextlib import closing

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.store.redis import RedisStore, bell
from tests.servers.proxy import Proxy
from tests.servers.valkey import Server
from tests.worker.waiting import until

SIGN_OF_LIFE = b"PING"


def asked(proxy: Proxy) -> int:
    return sum(SIGN_OF_LIFE in question for question in proxy.questions)


def test_rings_are_heard_again_on_a_new_connection(
    server: Server, prefix: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell, "_QUIET_SECONDS", 0.1)
    with (
        closing(RedisStore(f"{proxy.url(prefix)}&patience=1")) as store,
        closing(store.bell.listen()) as listener,
        closing(RedisStore(server.url(prefix))) as other,
    ):
        desk = Desk(other)

        def is_heard() -> bool:
            desk.intake.enqueue(Job("news"))
            return "news" in listener.wait(0.05)

        assert is_heard()
        proxy.strand_all()
        until(is_heard)


def test_whoever_answers_is_kept(
    proxy: Proxy, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell, "_QUIET_SECONDS", 0.1)
    with (
        closing(RedisStore(f"{proxy.url(prefix)}&patience=1")) as store,
        closing(store.bell.listen()) as listener,
    ):
        (ear,) = listener._ears.values()
        until(lambda: listener.wait(0.05) or asked(proxy) == 15)
        assert [*listener._ears.values()] == [ear]

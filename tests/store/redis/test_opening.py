"""Opening: logins, prefixes and databases, servers that will not do, and stores of others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.errors import BadInput, StoreFull, StoreTooNew, StoreUnavailable
from stoker.kernel.job import Job
from stoker.store import Filter
from stoker.store.open import is_there, open_store
from stoker.store.redis import LAYOUT, RedisStore
from tests.architecture.tree import ROOT
from tests.engines import SECOND
from tests.servers import valkey
from tests.servers.valkey import Server
from tests.store.conformance.acts import BROKEN, put, take
from tests.store.sqlite.process import Process

PAGE = (ROOT / "docs" / "storage-redis.md").read_text(encoding="utf-8")
PERMISSIONS = re.search(r"ACL SETUSER worker on >password (.*?)```", PAGE, re.DOTALL)[1]  # type: ignore[index]
LOCK = "secret"


@pytest.fixture
def locked() -> Iterator[Server]:
    with valkey.server({"requirepass": LOCK}) as server:
        yield server


def use(url: str) -> None:
    """A bit of everything a worker does."""
    store = open_store(url)
    desk = Desk(store)
    ear = store.bell.listen()
    session = desk.dispatch.open_session("w", ttl=60 * SECOND)
    put(desk, key="k", unique_key="u")
    put(desk)
    assert ear.wait(10) == {"q"}
    desk.report.fail(take(desk, session=session), BROKEN)
    desk.report.finish(take(desk, session=session))
    desk.dispatch.beat(session, ttl=60 * SECOND)
    assert len(store.find(Filter())) == 2
    store.tidy()
    ear.close()
    store.close()


def test_a_store_is_there_once_somebody_has_moved_in(server: Server, prefix: str) -> None:
    url = server.url(prefix)
    assert not is_there(url)
    open_store(url).close()
    assert is_there(url)


def test_of_many_processes_that_come_at_once_one_moves_in(server: Server, prefix: str) -> None:
    move_in = """
        from stoker.store.open import open_store
        say("ready")
        wait_for_a_word()
        store = open_store(sys.argv[1])
        say(f"{store.migrated} {Desk(store).intake.enqueue(Job('q')).fresh}")
    """
    with ExitStack() as stack:
        url = server.url(prefix)
        processes = [stack.enter_context(Process(move_in, url)) for _ in range(3)]
        assert [process.hear() for process in processes] == ["ready"] * 3
        for process in processes:
            process.tell("go")
        told = sorted(process.hear() for process in processes)
    moved_in = [f"(0, {LAYOUT}) True", *[f"({LAYOUT}, {LAYOUT}) True"] * 2]
    assert told == moved_in


def test_a_password_opens_a_locked_server(locked: Server) -> None:
    use(f"unix://:secret@{locked.socket}")


@pytest.mark.parametrize("login", ["", ":wrong@", "ann:secret@"])
def test_a_wrong_login_is_told_as_such(locked: Server, login: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"refused the login .* check user and password"):
        RedisStore(f"unix://{login}{locked.socket}")


def test_a_user_with_the_listed_permissions_can_do_everything(locked: Server) -> None:
    with locked.client(password=LOCK) as client:
        client.execute_command("ACL", "SETUSER", "worker", "on", ">pass", *PERMISSIONS.split())
    use(f"unix://worker:pass@{locked.socket}?prefix=jobs")


def test_a_user_who_lacks_a_permission_learns_it_when_the_store_is_opened(locked: Server) -> None:
    with locked.client(password=LOCK) as client:
        few = [word for word in PERMISSIONS.split() if word != "+zrem"]
        client.execute_command("ACL", "SETUSER", "worker", "on", ">pass", *few)
    with pytest.raises(StoreUnavailable, match="may not do all that Stoker needs"):
        RedisStore(f"unix://worker:pass@{locked.socket}?prefix=jobs")


def test_a_user_for_another_prefix_learns_it_when_the_store_is_opened(locked: Server) -> None:
    with locked.client(password=LOCK) as client:
        client.execute_command("ACL", "SETUSER", "worker", "on", ">pass", *PERMISSIONS.split())
    with pytest.raises(StoreUnavailable, match="may not do all that Stoker needs"):
        RedisStore(f"unix://worker:pass@{locked.socket}?prefix=others")


def test_stores_with_different_prefixes_know_nothing_of_each_other(server: Server) -> None:
    with valkey.prefix(server) as one, valkey.prefix(server) as other:
        first, second = (RedisStore(server.url(prefix)) for prefix in (one, other))
        put(Desk(first), unique_key="u")
        ear = second.bell.listen()
        assert second.find(Filter()) == []
        assert put(Desk(second), unique_key="u") == 1
        assert ear.wait(10) == {"q"}
        put(Desk(first))
        assert ear.wait(0) == set()
        ear.close()
        first.close()
        second.close()


def test_stores_in_different_databases_know_nothing_of_each_other(
    server: Server, prefix: str
) -> None:
    first = RedisStore(server.url(prefix, database=0))
    second = RedisStore(server.url(prefix, database=1))
    put(Desk(first))
    assert second.find(Filter()) == []
    with server.client(db=1) as client:
        valkey.forget(client, prefix)
    first.close()
    second.close()


def test_a_server_that_throws_keys_away_is_refused() -> None:
    with valkey.server({"maxmemory-policy": "allkeys-lru"}) as careless:
        with pytest.raises(StoreUnavailable, match="set maxmemory-policy noeviction, or say"):
            RedisStore(careless.url())
        use(careless.url(unsafe=1))


def test_a_server_out_of_memory_takes_no_jobs_but_lets_workers_make_room() -> None:
    with valkey.server() as small:
        store = RedisStore(small.url())
        desk = Desk(store)
        put(desk)
        with small.client() as client:
            client.config_set("maxmemory", 1)
            with pytest.raises(StoreFull, match="no memory left for new jobs"):
                put(desk)
            desk.report.finish(take(desk))
            client.config_set("maxmemory", 0)
        put(desk)
        store.close()


def test_a_store_of_a_newer_stoker_is_left_alone(server: Server, prefix: str) -> None:
    RedisStore(server.url(prefix)).close()
    with server.client() as client:
        client.hset(f"{{{prefix}.0}}:meta", "layout", LAYOUT + 1)
    with pytest.raises(StoreTooNew, match="upgrade Stoker, or use another prefix"):
        RedisStore(server.url(prefix))


def test_the_number_of_partitions_cannot_change(server: Server, prefix: str) -> None:
    RedisStore(server.url(prefix, partitions=4)).close()
    with pytest.raises(BadInput, match=r"has 4 partition\(s\).* say \?partitions=4"):
        RedisStore(server.url(prefix))
    RedisStore(server.url(prefix, partitions=4)).close()


def test_a_server_that_is_not_there_is_told_about(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="Check that the server runs"):
        RedisStore(f"unix://{tmp_path / 'nobody'}?patience=0.05")


def test_it_works_on_a_port_as_well(prefix: str) -> None:
    with valkey.server(port=valkey.free_port()) as server:
        assert server.url().startswith("redis://127.0.0.1:")
        use(server.url(prefix))


def test_a_job_enqueued_by_one_process_is_due_at_once_for_all(server: Server, prefix: str) -> None:
    first, second = (RedisStore(server.url(prefix)) for _ in range(2))
    for _ in range(20):
        placed = Desk(first).intake.enqueue(Job("q"))
        assert take(Desk(second)).id == placed.id
    first.close()
    second.close()

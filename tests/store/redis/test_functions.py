"""The functions inside the server: loaded when they are missing, whatever made them go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.store import Filter
from stoker.store.redis import RedisStore, lua
from stoker.store.redis.library import library
from tests.servers import valkey
from tests.servers.valkey import DURABLE, Server
from tests.store.conformance.acts import put, take

LOSSES: dict[str, Callable[[Server], object]] = {
    "FUNCTION FLUSH": lambda server: server.client().function_flush(),
    "FUNCTION DELETE": lambda server: server.client().function_delete(f"stoker_{library().digest}"),
    "SCRIPT FLUSH": lambda server: server.client().script_flush(),
}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_functions_that_are_gone_are_loaded_again(
    server: Server, store: RedisStore, lose: Callable[[Server], object]
) -> None:
    desk = Desk(store)
    job_id = put(desk)
    lose(server)
    assert take(desk).id == job_id
    lose(server)
    assert [job.id for job in store.find(Filter())] == [job_id]


def test_functions_survive_a_restart_with_the_jobs() -> None:
    with valkey.server(DURABLE) as server:
        store = RedisStore(server.url())
        job_id = put(Desk(store))
        server.stop()
        server.start()
        with server.client() as client:
            assert len(client.function_list()) == 1
        assert take(Desk(store)).id == job_id
        store.close()


def test_a_server_that_lost_everything_is_a_new_one() -> None:
    with valkey.server() as server:
        store = RedisStore(server.url())
        first = put(Desk(store))
        server.stop()
        server.start()
        assert store.find(Filter()) == []
        # Ids that this process has seen are not given to others.
        assert put(Desk(store)) == first + 1
        store.close()


def test_versions_of_stoker_share_a_server(server: Server, store: RedisStore) -> None:
    with server.client() as client:
        other = library().code.replace(library().digest, "another_version")
        client.function_load(other, replace=True)
        put(Desk(store))
        assert client.function_delete("stoker_another_version")
    assert take(Desk(store)).id == 1


def test_every_lua_file_says_what_it_is_for_and_is_part_of_the_library() -> None:
    files = sorted(Path(lua.__file__).parent.glob("*.lua"))
    assert files
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert text.startswith("-- "), file.name
        assert text in library().code, file.name

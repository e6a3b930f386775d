"""The door on a store with several partitions: what cannot be one step is refused as such."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stoker.desk import Desk
from stoker.store.redis import RedisStore
from tests.bedrock.teller import Teller
from tests.servers import valkey

NAMES = [f"job {n}" for n in range(40)]


@pytest.fixture
def spread() -> Iterator[Teller]:
    server = valkey.default_server()
    with valkey.prefix(server) as prefix:
        store = RedisStore(server.url(prefix, partitions=4))
        yield Teller(Desk(store))
        store.close()


def test_a_list_that_lives_in_several_partitions_is_well_said_but_not_possible(
    spread: Teller,
) -> None:
    jobs = [{"name": name, "unique": True} for name in NAMES]
    said = spread("CreateJobs", jobs=jobs)
    assert said.status == "405 Not possible in one step with this store"
    assert "one by one" in spread.advice
    assert spread("GetJob", name="job *").status == "404 No job found"


def test_one_by_one_they_are_taken(spread: Teller) -> None:
    first = [spread.create(name, unique="true") for name in NAMES]
    assert [spread.create(name, unique="true") for name in NAMES] == first


def test_what_is_malformed_is_told_to_be_so_there_too(spread: Teller) -> None:
    jobs = [{"name": name, "unique": True, "repeat": "now and then"} for name in NAMES]
    assert spread("CreateJobs", jobs=jobs).status == "402 Malformed repeat"

"""Connections, and the right to have one."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from stoker.errors import StoreUnavailable
from stoker.store.clock import wall_clock
from stoker.store.postgres.pool import Pool
from tests.servers import postgres


class Refused(Exception):
    """The server let nobody in."""


def refuse() -> object:
    raise Refused


def test_as_many_are_lent_as_there_may_be_and_each_comes_back() -> None:
    with postgres.stores().store(wall_clock) as store:
        pool = Pool(store._connect, 2)
        for _ in range(3):
            with pool.connection() as one, pool.connection() as other:
                assert one is not other
                assert pool._free.empty()
        pool.close()


def test_a_place_is_not_lost_where_no_connection_can_be_had_even_if_the_error_is_kept() -> None:
    pool = Pool(refuse, 1)  # type: ignore[arg-type]
    kept = []
    for _ in range(3):
        with pytest.raises(Refused) as error, pool.connection():
            pass
        kept.append(error)
    assert not pool._free.empty()


def test_a_place_is_not_lost_with_the_one_who_was_interrupted_as_it_got_it() -> None:
    pool = Pool(refuse, 1)  # type: ignore[arg-type]
    place = pool.wait()
    assert pool._free.empty()
    del place
    assert not pool._free.empty()


def test_a_pool_that_nobody_uses_any_more_is_gone() -> None:
    pool = Pool(refuse, 3)  # type: ignore[arg-type]
    pool.close()
    with pytest.raises(StoreUnavailable), pool.connection():
        pass
    there = ref(pool._free)
    del pool
    gc.collect()
    assert there() is None

"""The primary is killed and its synchronous standby promoted while everybody is at work. Nobody is
told where to go: the URL names both."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from stoker import Stoker
from stoker.desk import Desk
from stoker.errors import StoreReadOnly
from stoker.store.open import open_store
from tests.servers.postgres import Server
from tests.servers.postgres_standby import Standby
from tests.store.conformance.acts import put
from tests.store.load import Load
from tests.worker.waiting import until


@pytest.fixture
def standby(own_server: Server) -> Iterator[Standby]:
    """The follower of `own_server`, which waits for it from then on."""
    standby = Standby(own_server)
    yield standby
    standby.remove()


def test_nothing_acknowledged_is_lost_when_a_standby_takes_over_and_all_go_on(
    own_server: Server, standby: Standby
) -> None:
    url = standby.url_of_both("stoker")
    app, done = Stoker(url), list[int]()
    task = app.task(name="note")(done.append)
    worker = app.worker(concurrency=2)
    worker.start()
    try:
        with Load(url) as load:
            load.wait_for(300)
            task.enqueue(1).wait(timeout="30s")
            later = task.options(delay="2s").enqueue(2)
            own_server.kill()
            standby.promote()
            load.wait_for(300)
            later.wait(timeout="30s")
            task.enqueue(3).wait(timeout="30s")
            assert load.troubles
            load.assert_nothing_lost()
    finally:
        worker.stop()
        app.close()
    assert done == [1, 2, 3]


def test_of_several_hosts_the_one_that_takes_writes_is_chosen_as_long_as_it_does(
    own_server: Server, standby: Standby
) -> None:
    url = own_server.url("stoker", host=f"{standby.folder},{own_server.folder}")
    any_will_do = f"{url}&target_session_attrs=any"
    with pytest.raises(StoreReadOnly, match="is it a standby"):
        open_store(any_will_do)
    store = open_store(url)
    assert put(Desk(store)) == 1
    standby.promote()
    with psycopg.connect(own_server.url(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        connection.execute("SELECT pg_reload_conf()")
        shown = "SHOW default_transaction_read_only"
        until(lambda: connection.execute(shown).fetchone() == ("on",))
    time.sleep(0.2)  # all others hear it at the same moment, but may be slower to act upon it
    with pytest.raises(StoreReadOnly):
        put(Desk(store))
    put(Desk(store))
    store.close()

"""Wake-ups between processes: heard by all who listen, and never in anybody's way."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from stoker.desk import Desk
from stoker.errors import LeaseLost
from stoker.kernel.job import Job
from stoker.kernel.outcome import Released
from stoker.kernel.queue import QueueSettings
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.bell import SocketBell
from tests.engines import SECOND
from tests.store.sqlite.busy_day import desk_at
from tests.store.sqlite.process import Process

LONG = 60.0
"""More than anybody has to wait."""

LISTEN = """
    ear = SqliteStore(sys.argv[1]).bell.listen()
    say("listening")
    while heard := ear.wait(60):
        say(" ".join(sorted(heard)))
"""


@pytest.fixture
def bell(tmp_path: Path) -> Iterator[SocketBell]:
    with closing(SocketBell(os.fspath(tmp_path / "bell"))) as bell:
        yield bell


@pytest.fixture
def ears(path: Path) -> Path:
    """The folder in which the listeners of the store have their sockets."""
    return path.with_name("jobs.db-bell")


# -- what rings ----------------------------------------------------------------------------


def test_a_commit_wakes_a_listener_in_another_process(store: SqliteStore) -> None:
    with Process(LISTEN, store.path) as other:
        assert other.hear() == "listening"
        desk_at(store).intake.enqueue_many([Job("mail"), Job("print")])
        assert other.hear() == "mail print"


def test_a_job_that_is_to_be_cancelled_rings_for_the_session_that_runs_it(desk: Desk) -> None:
    session = desk.dispatch.open_session(ttl=60 * SECOND)
    desk.intake.enqueue(Job("mail"))
    (job,) = desk.dispatch.claim(["mail"], session=session)
    with closing(desk.store.bell.listen()) as ear:
        desk.control.cancel(job.id)
        assert ear.wait(LONG) == {f"!{session}"}


def test_room_in_a_queue_that_was_full_rings_for_it(desk: Desk) -> None:
    desk.control.configure("mail", QueueSettings(capacity=1))
    desk.intake.enqueue_many([Job("mail"), Job("mail")])
    (job,) = desk.dispatch.claim(["mail"], 2)
    with closing(desk.store.bell.listen()) as ear:
        desk.report.finish(job)
        assert ear.wait(LONG) == {"mail"}


def test_new_settings_ring_for_their_queue(desk: Desk) -> None:
    with closing(desk.store.bell.listen()) as ear:
        desk.control.configure("mail", QueueSettings(paused=False))
        assert ear.wait(LONG) == {"mail"}


def test_a_change_that_was_refused_does_not_ring(desk: Desk) -> None:
    desk.intake.enqueue(Job("mail"))
    (job,) = desk.dispatch.claim(["mail"])
    desk.report.finish(job)
    with closing(desk.store.bell.listen()) as ear:
        (late,), _ = desk.report.many([(job, Released())])
        assert isinstance(late, LeaseLost)
        assert ear.wait(0) == set()


# -- listening -----------------------------------------------------------------------------


def test_rings_that_came_before_the_wait_are_heard_together(bell: SocketBell) -> None:
    with closing(bell.listen()) as ear:
        bell.ring(["a"])
        bell.ring(["b", "a"])
        assert ear.wait(LONG) == {"a", "b"}
        assert ear.wait(0) == set()


def test_fifty_listeners_all_hear(bell: SocketBell) -> None:
    with ExitStack() as stack:
        ears = [stack.enter_context(closing(bell.listen())) for _ in range(50)]
        bell.ring(["q"])
        assert [ear.wait(LONG) for ear in ears] == [{"q"}] * 50


def test_a_listener_is_heard_of_even_if_the_clock_of_the_files_stood_still(
    bell: SocketBell, tmp_path: Path
) -> None:
    with closing(bell.listen()) as first:
        bell.ring(["q"])
        before = (tmp_path / "bell").stat()
        with closing(bell.listen()) as second:
            os.utime(tmp_path / "bell", ns=(before.st_atime_ns, before.st_mtime_ns))
            bell.ring(["q"])
            assert (first.wait(LONG), second.wait(LONG)) == ({"q"}, {"q"})


def test_the_listeners_are_not_looked_up_again_while_none_came_or_went(
    bell: SocketBell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(bell.listen()) as ear:
        os.utime(tmp_path / "bell", (1, 1))
        bell.ring(["q"])
        with monkeypatch.context() as patch:
            patch.delattr(Path, "glob")
            bell.ring(["r"])
        assert ear.wait(LONG) == {"q", "r"}


def test_a_store_may_have_a_longer_path_than_a_socket(tmp_path: Path) -> None:
    (tmp_path / ("long" * 50)).mkdir()
    with (
        closing(SqliteStore(tmp_path / ("long" * 50) / "jobs.db")) as store,
        Process(LISTEN, store.path) as other,
    ):
        assert other.hear() == "listening"
        desk_at(store).intake.enqueue(Job("mail"))
        assert other.hear() == "mail"


def test_a_path_of_few_letters_may_have_more_bytes_than_the_name_of_a_socket() -> None:
    with (
        TemporaryDirectory() as folder,
        closing(SocketBell(f"{folder}/{'火' * 30}")) as bell,
        closing(bell.listen()) as ear,
    ):
        bell.ring(["q"])
        assert ear.wait(LONG) == {"q"}


def test_a_ring_for_very_many_queues_still_wakes(bell: SocketBell) -> None:
    names = [f"queue-{n}-ä" for n in range(20_000)]
    with closing(bell.listen()) as ear:
        bell.ring(names)
        heard = ear.wait(LONG)
    assert len(heard & set(names)) > 1000


# -- nobody's way --------------------------------------------------------------------------


def test_without_listeners_nothing_is_made_for_them(store: SqliteStore, ears: Path) -> None:
    desk_at(store).intake.enqueue(Job("mail"))
    assert not ears.exists()


def test_a_listener_that_leaves_takes_its_socket_along(store: SqliteStore, ears: Path) -> None:
    ear = store.bell.listen()
    assert len([*ears.iterdir()]) == 1
    ear.close()
    assert [*ears.iterdir()] == []


def test_the_socket_of_a_listener_that_died_is_removed_by_the_next_ring(
    store: SqliteStore, ears: Path
) -> None:
    with Process(LISTEN, store.path) as other:
        assert other.hear() == "listening"
        other.kill()
    assert len([*ears.iterdir()]) == 1
    desk_at(store).intake.enqueue(Job("mail"))
    assert [*ears.iterdir()] == []


def test_a_listener_that_never_waits_keeps_nobody_from_ringing_or_hearing(
    bell: SocketBell,
) -> None:
    with closing(bell.listen()) as sleeper, closing(bell.listen()) as waker:
        for number in range(2000):
            bell.ring([f"q{number}"])
            assert waker.wait(LONG) == {f"q{number}"}
        assert "q0" in sleeper.wait(LONG)


def test_a_folder_that_vanished_does_no_harm(store: SqliteStore, ears: Path) -> None:
    desk = desk_at(store)
    ear = store.bell.listen()
    desk.intake.enqueue(Job("mail"))
    shutil.rmtree(ears)
    desk.intake.enqueue(Job("mail"))
    ear.close()
    with closing(store.bell.listen()) as ear:
        desk.intake.enqueue(Job("print"))
        assert ear.wait(LONG) == {"print"}


def test_other_files_in_the_folder_do_no_harm(bell: SocketBell, tmp_path: Path) -> None:
    with closing(bell.listen()) as ear:
        (tmp_path / "bell" / "no-socket.ear").touch()
        (tmp_path / "bell" / "notes.txt").touch()
        bell.ring(["q"])
        assert ear.wait(LONG) == {"q"}
        assert (tmp_path / "bell" / "notes.txt").exists()


def test_where_there_can_be_no_sockets_one_works_without(store: SqliteStore, ears: Path) -> None:
    ears.touch()
    with closing(store.bell.listen()) as ear:
        assert desk_at(store).intake.enqueue(Job("mail")).id == 1
        assert ear.wait(0) == set()


def test_what_somebody_else_sends_to_a_listener_does_no_harm(
    bell: SocketBell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(bell.listen()) as ear, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as joker:
        (address,) = (tmp_path / "bell").iterdir()
        monkeypatch.chdir(address.parent)  # so that its name is short enough for a socket
        joker.sendto(b"\xff\xfe", address.name)
        bell.ring(["q"])
        assert "q" in ear.wait(LONG)


def test_a_bell_that_was_closed_rings_again_when_asked_to(bell: SocketBell) -> None:
    bell.close()
    with closing(bell.listen()) as ear:
        bell.ring(["q"])
        assert ear.wait(LONG) == {"q"}

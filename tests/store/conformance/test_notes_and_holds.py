"""Small things beside the jobs: notes with a guard, and locks with a name."""

from __future__ import annotations

import pytest

from stoker.kernel.change import Change, Note, NoteWrite
from stoker.store import Store
from tests.engines import VirtualClock
from tests.store.conformance.acts import SECOND

TTL = 30 * SECOND


def write(
    store: Store,
    value: bytes | None,
    *,
    key: str = "k",
    until: int | None = None,
    expect: int | None = None,
) -> bool:
    change = Change(notes=(NoteWrite(key, value, until, expect),))
    (receipt,) = store.transact([change]).receipts
    assert receipt.ok == (receipt.stale_notes == ())
    return receipt.ok


# -- notes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [b"", b"text", b"\x00\xff\x00", b"x" * 100_000], ids=range(4))
@pytest.mark.parametrize("key", ["k", "", "ä ☃\n'\""], ids=range(3))
def test_a_note_is_kept_exactly(store: Store, key: str, value: bytes) -> None:
    assert write(store, value, key=key)
    assert store.notes([key]) == {key: Note(key, value, None, 1)}


def test_notes_that_are_not_there_are_missing(store: Store) -> None:
    write(store, b"1", key="a")
    assert store.notes(["a", "b"]) == {"a": Note("a", b"1")}
    assert store.notes([]) == {}


def test_each_write_raises_the_revision(store: Store) -> None:
    for revision in (1, 2, 3):
        write(store, b"%d" % revision)
        assert store.notes(["k"])["k"] == Note("k", b"%d" % revision, None, revision)


def test_a_note_may_be_written_only_if_it_is_absent(store: Store) -> None:
    assert write(store, b"first", expect=0)
    assert not write(store, b"second", expect=0)
    assert store.notes(["k"])["k"].value == b"first"


def test_a_note_may_be_written_only_if_it_is_the_one_that_was_seen(store: Store) -> None:
    write(store, b"1")
    assert write(store, b"2", expect=1)
    assert not write(store, b"3", expect=1)
    assert write(store, b"3", expect=2)
    assert store.notes(["k"])["k"] == Note("k", b"3", None, 3)


def test_a_note_can_be_forgotten_with_or_without_a_guard(store: Store) -> None:
    write(store, b"1")
    assert not write(store, None, expect=7)
    assert write(store, None, expect=1)
    assert store.notes(["k"]) == {}
    assert write(store, None)
    assert write(store, None, expect=0)


def test_a_note_written_after_it_was_forgotten_begins_anew(store: Store) -> None:
    write(store, b"1")
    write(store, b"2")
    write(store, None)
    assert write(store, b"3", expect=0)
    assert store.notes(["k"])["k"].revision == 1


def test_a_note_out_of_date_is_as_good_as_absent(store: Store, clock: VirtualClock) -> None:
    write(store, b"1", until=clock.now + SECOND)
    clock.now += SECOND - 1
    assert store.notes(["k"]) == {"k": Note("k", b"1", clock.now + 1, 1)}
    clock.now += 1
    assert store.notes(["k"]) == {}
    assert not write(store, b"2", expect=1)
    assert write(store, b"2", expect=0)
    assert store.notes(["k"]) == {"k": Note("k", b"2", None, 1)}


def test_a_guard_that_fails_says_which_note_it_was(store: Store) -> None:
    write(store, b"1", key="a")
    writes = (NoteWrite("a", b"2", expect=1), NoteWrite("b", b"2", expect=1))
    (receipt,) = store.transact([Change(notes=writes)]).receipts
    assert (receipt.ok, receipt.stale_notes) == (False, ("b",))
    assert store.notes(["a", "b"]) == {"a": Note("a", b"1")}


def test_of_two_writers_in_one_step_who_saw_the_same_note_the_first_wins(store: Store) -> None:
    changes = [Change(notes=(NoteWrite("k", value, expect=0),)) for value in (b"1", b"2")]
    assert [receipt.ok for receipt in store.transact(changes).receipts] == [True, False]
    assert store.notes(["k"])["k"].value == b"1"


# -- locks ---------------------------------------------------------------------------------


def test_a_lock_is_held_by_one_at_a_time(store: Store) -> None:
    assert store.hold("chores", "ann", TTL)
    assert not store.hold("chores", "bob", TTL)
    assert store.hold("other", "bob", TTL)


def test_its_holder_may_prolong_a_lock(store: Store, clock: VirtualClock) -> None:
    store.hold("chores", "ann", TTL)
    clock.pass_(20)
    assert store.hold("chores", "ann", TTL)
    clock.pass_(20)
    assert not store.hold("chores", "bob", TTL)


def test_a_lock_is_free_at_the_moment_its_time_is_up(store: Store, clock: VirtualClock) -> None:
    store.hold("chores", "ann", TTL)
    clock.now += TTL - 1
    assert not store.hold("chores", "bob", TTL)
    clock.now += 1
    assert store.hold("chores", "bob", TTL)
    assert not store.hold("chores", "ann", TTL)


def test_a_lock_can_be_given_up(store: Store) -> None:
    store.hold("chores", "ann", TTL)
    assert store.hold("chores", "ann", 0)
    assert store.hold("chores", "bob", TTL)


def test_a_lock_that_was_given_up_stays_free_when_the_clock_is_put_back(
    store: Store, clock: VirtualClock
) -> None:
    store.hold("chores", "ann", TTL)
    store.hold("chores", "ann", 0)
    clock.pass_(-3600)
    assert store.hold("chores", "bob", TTL)


def test_nobody_can_give_up_the_lock_of_another(store: Store) -> None:
    store.hold("chores", "ann", TTL)
    assert not store.hold("chores", "bob", 0)
    assert not store.hold("chores", "cid", TTL)


def test_tidying_frees_no_lock_that_is_held(store: Store, clock: VirtualClock) -> None:
    store.hold("chores", "ann", TTL)
    clock.pass_(29)
    store.tidy()
    assert not store.hold("chores", "bob", TTL)

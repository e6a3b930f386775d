"""A sealed store gives no jobs out; it is being left, or is not in service yet.

The seal is a note, so that setting it is a Change like any other and every engine sees it in the
very step in which it would have taken or given a job. A *closing* store takes no new jobs but hears
what becomes of those that run; children of running jobs are let in, for they belong to work that
has begun. A *shut* store changes no more.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stoker.errors import StoreMoved
from stoker.kernel.change import Change, NoteWrite, kinds

SEAL = "stoker:seal"
"""The note's key."""


class Seal(msgspec.Struct, frozen=True):
    """What the note says."""

    why: str
    """For people."""
    shut: bool = False


def sealed(seal: Seal) -> Change:
    """Set the seal."""
    return Change(notes=(NoteWrite(SEAL, msgspec.json.encode(seal)),))


UNSEALED = Change(notes=(NoteWrite(SEAL, None),))
"""Take the seal off."""


def read_seal(note: bytes) -> Seal:
    """The seal a note tells of."""
    return msgspec.json.decode(note, type=Seal)


def check_seal(note: bytes, changes: Sequence[Change]) -> None:
    """Refuse what a sealed store must not take; the whole call, before anything is done."""
    seal = read_seal(note)
    for change in changes:
        about_seal = any(note.key == SEAL for note in change.notes)
        newcomers = any(job.parent_id is None for job in kinds(change.inserts))
        if not about_seal and (seal.shut or newcomers):
            raise StoreMoved(seal.why)

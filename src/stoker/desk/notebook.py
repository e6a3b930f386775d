"""The notebook: small named values beside the jobs, for doors that have something to remember."""

from __future__ import annotations

from collections.abc import Callable

from stoker.desk.clerk import Clerk
from stoker.errors import Contended
from stoker.kernel.change import Change, Note, NoteWrite

_ROUNDS = 20


class Notebook:
    """Notes by key, each with a revision that guards it against others who write it too."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk

    def read(self, key: str) -> Note | None:
        """The note, if it is there and not out of date."""
        return self._clerk.store.notes([key]).get(key)

    def write(
        self,
        key: str,
        value: bytes | None,
        *,
        expect: int | None = None,
        lasting: int | None = None,
    ) -> bool:
        """Put a note, or forget it (None). Was it as expected? 0 means that it is not there yet.

        `lasting` is for how many microseconds it is kept; else it is kept for ever.
        """
        until = None if lasting is None else self._clerk.store.now() + lasting
        change = Change(notes=(NoteWrite(key, value, until, expect),))
        return self._clerk.transact([change]).receipts[0].ok

    def rewrite(self, key: str, rule: Callable[[bytes | None], bytes | None]) -> None:
        """Put what the rule makes of the note that is there; the rule may be asked again."""
        for _ in range(_ROUNDS):
            note = self.read(key)
            value = rule(None if note is None else note.value)
            if self.write(key, value, expect=0 if note is None else note.revision):
                return
        raise Contended(f"the note {key!r} keeps changing; try again")

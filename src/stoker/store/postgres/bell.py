"""Wake-ups between processes that share a database: LISTEN and NOTIFY.

Those of one's own process are woken directly. To the others the names go after the commit, in a
transaction of their own and at most twenty times a second: a NOTIFY inside a commit would make all
commits of the database queue up behind one another. Whoever only waits costs nothing.

Through a pooler that hands out connections by the transaction nothing can be heard. That is found
out by a trial, and then somebody has to look every second.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from stoker.store.bell import LocalBell, LocalListener
from stoker.store.forks import heed_forks
from stoker.store.postgres.driver import Connection
from stoker.store.postgres.ear import Ear
from stoker.store.postgres.errands import read_errand
from stoker.store.postgres.herald import Herald
from stoker.store.rings import errand_ring

_LONGEST = 7000
_SHORT = 1000
_TRIAL = "trial"


class NotifyBell:
    """Rings all listeners of one schema.

    `connect` makes a connection to listen on (None: there is none to be had), `send` carries a
    message to all who listen, and `look` tells which queues may have got work since the last look.
    """

    def __init__(
        self,
        connect: Callable[[], Connection] | None,
        channel: str,
        send: Callable[[str], None],
        look: Callable[[], Iterable[str]],
    ) -> None:
        self._send = send
        self._look = look
        self._herald = Herald(self._tell)
        self._ear = Ear(
            connect,
            lambda: (channel, self._moved_in()),
            ask_for_trial=self._ask_for_trial,
            hear=self._hear,
            look=self._look_around,
        )
        self._begin()
        heed_forks(self)

    def _begin(self) -> None:
        self._local = LocalBell(lambda: self._errands if self._ear.hears else None)
        self._name = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._trial = ""
        self._errands = ""

    def _moved_in(self) -> str:
        # What comes there is for us alone: nobody listens to a channel of which he does not know.
        self._errands = f"stoker_{secrets.token_hex(16)}"
        return self._errands

    def comes_through(self) -> bool:
        """Do rings of other processes come through? It may take seconds to know."""
        self._ear.open()
        self._ear.tried.wait()
        return self._ear.hears

    def ring(self, names: Iterable[str], *, told: bool = False) -> None:
        """Wake those of this process, and let the others know unless they were told."""
        rung = set(names)
        self._local.ring(rung)
        if not told:
            self._herald.announce(rung)

    def message_along(self, name: str) -> str | None:
        """What the others are to be told right behind a commit, so that it needs no round trip of
        its own; None: it is not the time, or the name is long."""
        if len(name) > _SHORT or not self._herald.may_speak():
            return None
        return message(self._name, [name])

    def listen(self) -> LocalListener:
        listener = self._local.listen()
        self._ear.open()
        return listener

    def close(self) -> None:
        """Ring and hear no more."""
        self._herald.close()
        self._ear.close()

    def _tell(self, names: Sequence[str]) -> None:
        for some in _pages(names):
            self._send(message(self._name, some))

    def _ask_for_trial(self) -> None:
        self._trial = secrets.token_hex(8)
        self._send(message(_TRIAL, [self._trial]))

    def _hear(self, channel: str, said: str) -> bool:
        """Pass on what others have rung. Was it the trial?"""
        if channel == self._errands:
            self._take_errand(said)
            return False
        try:
            sender, *names = msgspec.json.decode(said, type=list[str])
        except (msgspec.MsgspecError, ValueError):
            return False  # not from a ringer of ours
        if sender == _TRIAL:
            return names == [self._trial]
        if sender != self._name:
            self._local.ring(names)
        return False

    def _take_errand(self, said: str) -> None:
        try:
            errand = read_errand(said)
        except (msgspec.MsgspecError, ValueError):
            return  # not from a ringer of ours
        job = errand.started()
        if job is None:
            self._local.ring({errand_ring(errand.session)})
        else:
            self._local.bring(job)

    def _look_around(self) -> None:
        self._local.ring(set(self._look()))

    def before_fork(self) -> None:
        """Nothing has to be put away."""

    def after_fork(self, *, in_child: bool) -> None:
        """Threads are not carried over, and the connection stays the parent's."""
        if in_child:
            self._begin()
            self._herald.forked()
            self._ear.forked()


def channel_of(schema: str) -> str:
    """The channel on which the processes of one schema ring. Names of channels are short."""
    return f"stoker_{schema}"[:63]


def message(sender: str, names: Iterable[str]) -> str:
    """What goes through the channel."""
    return msgspec.json.encode([sender, *names]).decode()


def _pages(names: Sequence[str]) -> Iterator[list[str]]:
    """As many names at a time as fit into one message; one that never would is left out."""
    page: list[str] = []
    for name in names:
        if _bytes([*page, name]) > _LONGEST:
            yield page
            page = []
        if _bytes([name]) <= _LONGEST:
            page.append(name)
    yield page


def _bytes(names: Sequence[str]) -> int:
    return len(msgspec.json.encode(names))

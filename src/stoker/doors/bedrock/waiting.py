"""Those who ask for jobs, and those who wait for them.

All who ask for the same stand together: one claim serves a whole *stand*, however many wait
there. Nobody polls. A stand claims when somebody comes, when the bell rings for one of its queues
(one listener hears for all), and when its next job falls due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from stoker.doors.bedrock import words
from stoker.doors.bedrock.handout import Ask, Found, Handout
from stoker.doors.bedrock.intents import Seek
from stoker.doors.bedrock.protocol import Reply
from stoker.doors.bedrock.refusals import NO_JOB_FOUND
from stoker.doors.gather import Done
from stoker.doors.signpost import Signpost
from stoker.kernel.job import Job

_MOST_AT_ONCE = 1000
_NONE = Reply(NO_JOB_FOUND, wrote=True)


class Client(Protocol):
    """Whoever is to be answered."""

    def answer(self, reply: Reply, handed: Sequence[Job] = ()) -> bool:
        """Answer; False: there is nobody to take the jobs."""

    def fail(self, error: BaseException) -> None:
        """Answer with what went wrong."""


class Seeker:
    """One request for jobs, until it is answered."""

    def __init__(self, client: Client, seek: Seek) -> None:
        self.client = client
        self.seek = seek
        self.patient = seek.patience is not None
        self.stand: Stand | None = None
        self.timer: asyncio.TimerHandle | None = None


class Key(NamedTuple):
    """What a stand stands for."""

    queues: tuple[str, ...]
    rank: int | None


class Stand:
    """All who ask for the same, in the order in which they came."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.seekers: dict[Seeker, None] = {}
        self.at_work = False
        self.rung = False
        self.timer: asyncio.TimerHandle | None = None

    def ask(self) -> Ask:
        """What all of them want together."""
        wanted = sum(seeker.seek.wanted for seeker in self.seekers)
        waits = any(seeker.patient for seeker in self.seekers)
        return Ask(*self.key, min(wanted, _MOST_AT_ONCE), waits)


class Waiting:
    """All stands. `claim` brings jobs and comes back to the loop, `give_back` takes them back."""

    def __init__(
        self,
        claim: Callable[[Ask, Done[Found]], None],
        give_back: Callable[[Sequence[Job]], None],
        now: Callable[[], int],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._claim = claim
        self._give_back = give_back
        self._now = now
        self._stands: dict[Key, Stand] = {}
        self._signpost: Signpost[Stand] = Signpost()
        self._closing = False

    @property
    def count(self) -> int:
        """How many wait, or are about to be answered."""
        return sum(len(stand.seekers) for stand in self._stands.values())

    def seek(self, client: Client, seek: Seek) -> Seeker:
        """Somebody asks for jobs."""
        seeker = Seeker(client, seek)
        key = Key(seek.queues, seek.rank)
        stand = self._stands.get(key) or self._put_up(key)
        stand.seekers[seeker] = None
        seeker.stand = stand
        if seek.patience is not None and not self._closing:
            seeker.timer = self._loop.call_later(seek.patience, self._give_up, seeker)
        seeker.patient = seeker.timer is not None
        self._work(stand)
        return seeker

    def leave(self, seeker: Seeker) -> None:
        """Somebody no longer asks."""
        if seeker.timer is not None:
            seeker.timer.cancel()
        stand, seeker.stand = seeker.stand, None
        if stand is not None:
            del stand.seekers[seeker]
            if not stand.seekers and not stand.at_work:
                self._take_down(stand)

    def rung(self, names: Iterable[str]) -> None:
        """There may be work in these queues."""
        ours = [name for name in names if words.is_ours(name)]
        for stand in self._signpost.concerned(ours):
            self._work(stand)

    def close(self) -> None:
        """Nobody may wait any longer."""
        self._closing = True
        for stand in list(self._stands.values()):
            for seeker in [each for each in stand.seekers if each.patient]:
                self._give_up(seeker)

    def _put_up(self, key: Key) -> Stand:
        stand = self._stands[key] = Stand(key)
        self._signpost.add(key.queues, stand)
        return stand

    def _take_down(self, stand: Stand) -> None:
        if stand.timer is not None:
            stand.timer.cancel()
        del self._stands[stand.key]
        self._signpost.remove(stand.key.queues, stand)

    def _give_up(self, seeker: Seeker) -> None:
        """Its time is up; but a claim that is on its way may still bring something."""
        seeker.patient = False
        if seeker.stand is not None and not seeker.stand.at_work:
            self._answer(seeker, _NONE)

    def _answer(self, seeker: Seeker, reply: Reply, handed: Sequence[Job] = ()) -> None:
        self.leave(seeker)
        if not seeker.client.answer(reply, handed) and handed:
            self._give_back(handed)

    # -- one stand at work -----------------------------------------------------------------

    def _work(self, stand: Stand) -> None:
        if stand.at_work:
            stand.rung = True
            return
        stand.at_work, stand.rung = True, False
        asked = list(stand.seekers)
        self._claim(stand.ask(), lambda found: self._served(stand, asked, found))

    def _served(self, stand: Stand, asked: list[Seeker], found: Found | BaseException) -> None:
        stand.at_work = False
        if isinstance(found, BaseException):
            for seeker in [each for each in asked if each.stand is stand]:
                self.leave(seeker)
                seeker.client.fail(found)
        else:
            self._share(stand, list(found.handouts))
            for seeker in [each for each in asked if each.stand is stand and not each.patient]:
                self._answer(seeker, _NONE)
        self._go_on(stand, None if isinstance(found, BaseException) else found.next_due)

    def _share(self, stand: Stand, handouts: list[Handout]) -> None:
        """First come, first served; what nobody takes goes back."""
        while handouts and stand.seekers:
            seeker = next(iter(stand.seekers))
            share, handouts = handouts[: seeker.seek.wanted], handouts[seeker.seek.wanted :]
            self._answer(seeker, shown(seeker.seek, share), [handout.job for handout in share])
        if handouts:
            self._give_back([handout.job for handout in handouts])

    def _go_on(self, stand: Stand, next_due: int | None) -> None:
        if self._stands.get(stand.key) is not stand:
            return
        if not stand.seekers:
            self._take_down(stand)
        elif stand.rung:
            self._work(stand)
        elif next_due is not None:
            if stand.timer is not None:
                stand.timer.cancel()
            seconds = max(0.0, (next_due - self._now()) / 1e6)
            stand.timer = self._loop.call_later(seconds, self._work, stand)


def shown(seek: Seek, share: Sequence[Handout]) -> Reply:
    """The answer to one who asked: a job, or a list of them."""
    if not seek.many:
        return Reply(body=share[0].body, wrote=True)
    return Reply(body=b'{"jobs":[%b]}' % b",".join(each.body for each in share), wrote=True)

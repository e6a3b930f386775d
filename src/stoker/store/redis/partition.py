"""One partition: a whole store of jobs, in keys that share a slot.

Whatever is committed together is committed by one call of one function; the server runs nothing
else meanwhile.
"""

from __future__ import annotations

import secrets
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from redis.crc import key_slot

from stoker.errors import StoreError, StoreUnavailable
from stoker.kernel.change import Change, Note
from stoker.kernel.job import PARTITION_SHIFT, Job
from stoker.kernel.queue import QueueSettings
from stoker.store import Answer, Beat, Claim, Receipt, Session
from stoker.store.lone import lone_job
from stoker.store.redis import layout
from stoker.store.redis.clock import ServerClock
from stoker.store.redis.connection import HERALD, Argument, Prepared, packed
from stoker.store.redis.layout import JobReader
from stoker.store.redis.look import PAGE, Looker
from stoker.store.redis.options import Ack
from stoker.store.redis.portion import Portion
from stoker.store.redis.stand import hexadecimal, place
from stoker.store.redis.steps import Steps, claim_told
from stoker.store.redis.wire import Wire
from stoker.store.seal import check_seal
from stoker.store.standing import may_start_at_once
from stoker.store.twins import names_held

_ENCODE = msgspec.msgpack.Encoder().encode
_WHO = struct.Struct(">16sQQ")
_NOT_NOW = b"-"


class _Caller:
    """Whom the server remembers the last answer for; lent to one call at a time."""

    def __init__(self) -> None:
        self.name = secrets.token_hex(8)
        self.serial = 0


class Partition(Looker):
    """The verbs of a store, for the jobs whose ids carry this partition's number."""

    def __init__(self, wire: Wire, number: int, clock: ServerClock, portion: Portion) -> None:
        self.number = number
        self.tag = f"{{{wire.options.prefix}.{number}}}"
        self.slot = key_slot(self.tag.encode())
        self._wire = wire
        self._clock = clock
        self._portion = portion
        self._callers: deque[_Caller] = deque()
        self._highest = 0
        self._is_awaited = False
        """Was the last job that was placed one that somebody waited for? So may be the next."""
        self._placement = Prepared("FCALL", wire.function("place"), "1", self.tag)

    def call(self, name: str, *args: Argument, ack: Ack = Ack.MEMORY) -> list[Any]:
        """Call a function here; returns its answer without the moment it begins with."""
        asked = self._clock.asked()
        return self._said(self._wire.tell(self.slot, self._command(name, *args), ack), asked)

    def _command(self, name: str, *args: Argument) -> bytes:
        function = self._wire.function(name)
        return packed("FCALL", function, 1, self.tag, self._clock.argument, *args)

    def _said(self, answer: list[Any], asked: int) -> list[Any]:
        """What was answered to a question of that time, behind the moment."""
        self._clock.told(int(answer[0]), asked)
        return answer[1:]

    def is_inhabited(self) -> bool:
        """Whether somebody has moved in."""
        return bool(self._wire.command(self.slot, "EXISTS", f"{self.tag}:meta"))

    def begin_anew(self) -> None:
        """In the child of a fork: be nobody whom the server knows."""
        self._callers = deque()

    # -- transactions ----------------------------------------------------------------------

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        """Changes and claims in one call; in several if they are so many that others would have
        to wait for long."""
        lone = None if claims else lone_job(changes)
        if lone is not None and (placed := self._place(lone)) is not None:
            return placed
        *others, last = _portions(changes)
        receipts: list[Receipt] = []
        try:
            for some in others:
                receipts += self._transact(some, ()).receipts
            answer = self._transact(last, claims)
        except StoreError as error:
            if not receipts:
                raise
            raise StoreUnavailable(f"only a part of a large call took effect: {error}") from error
        return Answer([*receipts, *answer.receipts], answer.grants) if receipts else answer

    def _place(self, job: Job) -> Answer | None:
        """Take in one job; None if it, its queue or the store is not as usual, or if it is time to
        hear what the server's clock says."""
        if job.weight == 0 or job.policy.repeat is not None or not self._clock.is_known:
            return None
        wire, caller = self._wire, self._borrowed_caller()
        who = _WHO.pack(caller.name.encode(), caller.serial, self._highest) + place(job)
        who += self._clock.argument if may_start_at_once(job, self._clock()) else _NOT_NOW
        told = self._placement(who, job.queue.encode(), layout.head(job) + job.payload)
        # Where a worker waits for the job the processor is better left to that.
        told, awake = (HERALD + told, False) if self._is_awaited else (told, True)
        number = wire.tell(self.slot, told, wire.ack, awake=awake)
        self._callers.append(caller)
        if not number:
            return None
        self._is_awaited = number < 0
        number = abs(number)
        self._highest = max(self._highest, number)
        return Answer([Receipt(ids=(number + (self.number << PARTITION_SHIFT),))])

    def begin(self, changes: Sequence[Change]) -> Callable[[], Answer]:
        """As `transact` without claims, but the answer is waited for by whoever calls what this
        gives. Calls that are not as usual do not begin before that."""
        if lone_job(changes) is not None or len(_portions(changes)) > 1:
            return partial(self.transact, changes)
        steps = Steps(changes)
        return partial(self._answer, steps, changes, self._posted(steps))

    def _posted(self, steps: Steps) -> Callable[[], list[Any]]:
        asked, (name, request, caller) = self._clock.asked(), self._request(steps, (), b"")
        command = self._command(name, request, *steps.payloads)
        hear = self._wire.post(self.slot, command, self._wire.ack)

        def answer() -> list[Any]:
            said = self._said(hear(), asked)
            self._callers.append(caller)
            return said

        return answer

    def _transact(self, changes: Sequence[Change], claims: Sequence[Claim]) -> Answer:
        steps, told = Steps(changes), [claim_told(claim) for claim in claims]
        return self._answer(steps, changes, partial(self._send, steps, told, b""), told)

    def _answer(
        self,
        steps: Steps,
        changes: Sequence[Change],
        send: Callable[[], list[Any]],
        claims: Sequence[Any] = (),
    ) -> Answer:
        results, grants = self._carried_out(send(), steps, changes, claims)
        reader = self.reader()
        receipts = steps.receipts(results, reader)
        self._remember(receipts)
        return Answer(receipts, [g if g is None else self._granted(g, reader) for g in grants])

    def _granted(self, grant: Sequence[Any], reader: JobReader) -> list[Job]:
        numbers, first, bodies, odd = grant
        self._portion.learn(bodies)
        return reader.granted(numbers, first, bodies, odd)

    def _carry_out(
        self, steps: Steps, changes: Sequence[Change] = (), claims: Sequence[Any] = ()
    ) -> tuple[Any, Any]:
        """What became of the steps and of the claims."""
        return self._carried_out(self._send(steps, claims, b""), steps, changes, claims)

    def _carried_out(
        self, answer: list[Any], steps: Steps, changes: Sequence[Change], claims: Sequence[Any]
    ) -> tuple[Any, Any]:
        while len(answer) == 1:
            # There is a seal: what may be done all the same is sent by those who know it.
            seal = answer[0]
            check_seal(seal, changes)
            answer = self._send(steps, claims, seal)
        return answer[0], answer[1]

    def _send(self, steps: Steps, claims: Sequence[Any], seal: bytes) -> list[Any]:
        name, request, caller = self._request(steps, claims, seal)
        answer = self.call(name, request, *steps.payloads, ack=self._wire.ack)
        self._callers.append(caller)
        return answer

    def _request(
        self, steps: Steps, claims: Sequence[Any], seal: bytes
    ) -> tuple[str, bytes, _Caller]:
        """The function to be called, what it is told, and whom it is to remember the answer for."""
        name = "transact" if steps.payloads else "settle"
        told = [step.told for step in steps.steps]
        caller = self._borrowed_caller()
        who = (caller.name, caller.serial, self._highest)
        return name, _ENCODE([*who, layout.raw(seal), told, claims]), caller

    def _borrowed_caller(self) -> _Caller:
        """To be given back, but not after an error: then its call may still be on the way."""
        try:
            caller = self._callers.pop()
        except IndexError:
            caller = _Caller()
        caller.serial += 1
        return caller

    def _remember(self, receipts: Sequence[Receipt]) -> None:
        last = [receipt.ids[-1] for receipt in receipts if receipt.ids]
        if last:
            self._highest = max(self._highest, last[-1] - (self.number << PARTITION_SHIFT))

    def configure(self, name: str, settings: QueueSettings, *, away: bool) -> bool:
        """Give a queue its settings; False if it has jobs here that ought to live elsewhere."""
        steps = Steps(())
        steps.configure(name, settings, away=away)
        results, _ = self._carry_out(steps)
        return bool(results[0][0] == 1)

    def copy_notes(self, keys: Sequence[str], notes: Mapping[str, Note]) -> None:
        """Have the same notes as another partition."""
        steps = Steps(())
        steps.copy_notes(keys, notes)
        self._carry_out(steps)

    def adopt(self, jobs: Sequence[Job]) -> None:
        """Jobs that bring their ids with them."""
        for at in range(0, len(jobs), PAGE):
            self._adopt(jobs[at : at + PAGE])

    def _adopt(self, jobs: Sequence[Job]) -> None:
        while True:
            steps = Steps(())
            steps.adopt(jobs, self._displaced(jobs))
            results, _ = self._carry_out(steps)
            if results[0][0]:
                return

    def _displaced(self, jobs: Sequence[Job]) -> list[Job]:
        """Those who are here by the id or a name of one of the jobs."""
        names = [name for job in jobs for name in names_held(job)]
        return list(self.get({job.id for job in jobs}.union(self.holders(names))).values())

    # -- sessions, locks, order ------------------------------------------------------------

    def enrol(self, session: Session, ttl: int) -> None:
        """Begin a session."""
        self.call("enrol", hexadecimal(session.id), ttl, _ENCODE([session.name, session.info]))

    def beat(self, session: int, ttl: int, *, watch: bool) -> Beat:
        """Keep a session alive."""
        who = (hexadecimal(session), ttl, layout.token(session))
        alive, cancelled, troubled = self.call("beat", *who, int(watch))
        ids = sorted(map(self.reader().id_of, layout.numbers_in(cancelled)))
        return Beat(alive=bool(alive), cancelled=tuple(ids), troubled=bool(troubled))

    def retire(self, session: int) -> None:
        """End a session."""
        self.call("retire", hexadecimal(session))

    def hold(self, name: str, owner: str, ttl: int) -> bool:
        """Hold a lock."""
        return bool(self.call("hold", name, owner, ttl)[0])

    def tidy(self) -> None:
        """Forget what nobody will miss, a page at a time."""
        bound = b"-"
        while bound:
            (bound,) = self.call("tidy", bound, PAGE)


def _portions(changes: Sequence[Change]) -> list[Sequence[Change]]:
    """The Changes in portions of bearable size. One Change is never taken apart."""
    if len(changes) <= 1:
        return [changes]
    portions: list[list[Change]] = [[]]
    size = 0
    for change in changes:
        jobs = len(change.inserts) + len(change.writes) + len(change.deletes)
        if size and size + jobs > PAGE:
            portions.append([])
            size = 0
        portions[-1].append(change)
        size += jobs
    return [*portions]

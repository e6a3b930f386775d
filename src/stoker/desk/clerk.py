"""The clerk: read, ask the rulebook, commit; read again when the world has moved.

The only retry loop in the house. Decisions are made on the copy in hand, so that the usual case
is one round trip; a copy is read again only when its guard failed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from stoker.errors import (
    BadInput,
    Contended,
    Duplicate,
    LeaseLost,
    NotFound,
    StokerError,
    StoreError,
)
from stoker.kernel import family, flow
from stoker.kernel.change import NOTHING, Change, applied
from stoker.kernel.job import WAITS_FOR_CHILDREN, WAITS_FOR_PARENT, Job, State
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.store import Claim, Filter, Receipt, Store
from stoker.store.coalescer import Coalescer

_ROUNDS = 20
_SETTINGS_AGE = 1_000_000
_MOST_SETTINGS = 10_000
_FAMILY_PAGE = 500


class Decision(NamedTuple):
    """What is to be decided about one job; `held` is a worker's copy with its lease."""

    job_id: int
    rule: Callable[[Job], Change]
    held: Job | None = None
    born: list[int] | None = None
    """Filled with the ids of jobs that the decision brought into being."""
    seen: Job | None = None
    """A copy that is probably still right: if so, the job need not be read."""


Result = Job | StokerError
Grants = Sequence[Sequence[Job] | None]


class Decided(NamedTuple):
    """What became of many decisions, and of what went along with them."""

    results: list[Result]
    grants: Grants = ()
    along: bool = True
    """Was the Change that went along committed?"""


class Clerk:
    """Carries decisions to the store and sees to their consequences."""

    def __init__(
        self, store: Store, *, dice: Callable[[], float], token: Callable[[], int]
    ) -> None:
        self.store = store
        self.dice = dice
        self.token = token
        self.transact = Coalescer(store).transact
        self._settings: dict[str, tuple[int, QueueSettings]] = {}

    # -- decisions -------------------------------------------------------------------------

    def decide(
        self,
        job_id: int,
        rule: Callable[[Job], Change],
        held: Job | None = None,
        born: list[int] | None = None,
    ) -> Job:
        """Decide about one job; raises what stands in the way."""
        (result,) = self.decide_all([Decision(job_id, rule, held, born)]).results
        if isinstance(result, StokerError):
            raise result
        return result

    def decide_all(
        self, decisions: Sequence[Decision], claims: Sequence[Claim] = (), along: Change = NOTHING
    ) -> Decided:
        """Decide about many jobs, each on its own; `along` is committed and others are claimed
        in the same step."""
        results: dict[int, Result] = {}
        copies = {i: job for i, d in enumerate(decisions) if (job := d.held or d.seen) is not None}
        todo = list(range(len(decisions)))
        company = [] if along is NOTHING else [along]
        grants: Grants = ()
        committed = True
        for _ in range(_ROUNDS):
            self._read_missing(decisions, copies, todo, results)
            changes = self._changes(decisions, copies, todo, results)
            if company or changes or claims:
                answer = self.transact([*company, *(change for _, change in changes)], claims)
                receipts = answer.receipts
                if company:
                    committed, receipts = receipts[0].ok, receipts[1:]
                grants = grants or answer.grants
                company, claims = [], ()
                self._record(decisions, changes, receipts, copies, results)
            todo = [i for i in todo if i not in results]
            if not todo:
                break
        for i in todo:
            results[i] = Contended(f"job {decisions[i].job_id} keeps changing; try again")
        return Decided([results[i] for i in range(len(decisions))], grants, committed)

    def _read_missing(
        self,
        decisions: Sequence[Decision],
        copies: dict[int, Job],
        todo: list[int],
        results: dict[int, Result],
    ) -> None:
        unread = [i for i in todo if i not in copies]
        if not unread:
            return
        jobs = self.store.get([decisions[i].job_id for i in unread])
        for i in unread:
            job_id, held = decisions[i].job_id, decisions[i].held
            job = jobs.get(job_id)
            if held is not None and (job is None or job.token != held.token):
                results[i] = LeaseLost(f"job {job_id} is no longer yours; stop working on it")
            elif job is None:
                results[i] = NotFound(f"there is no job {job_id}")
            else:
                copies[i] = job

    @staticmethod
    def _changes(
        decisions: Sequence[Decision],
        copies: dict[int, Job],
        todo: list[int],
        results: dict[int, Result],
    ) -> list[tuple[int, Change]]:
        changes = []
        for i in todo:
            if i in results:
                continue
            try:
                changes.append((i, decisions[i].rule(copies[i])))
            except StoreError:
                raise  # which says nothing about the job
            except StokerError as error:
                if copies[i] is decisions[i].seen:
                    del copies[i]  # it may be for an old copy's sake: look at a fresh one
                else:
                    results[i] = error
        return changes

    def _record(
        self,
        decisions: Sequence[Decision],
        changes: list[tuple[int, Change]],
        receipts: Sequence[Receipt],
        copies: dict[int, Job],
        results: dict[int, Result],
    ) -> None:
        for (i, change), receipt in zip(changes, receipts, strict=True):
            if receipt.ok:
                there = results[i] = after(copies[i], change)
                born = decisions[i].born
                if born is not None:
                    born.extend(receipt.ids)
                if receipt.parents or there.open_children:
                    self._settle(there, change, receipt)
            elif receipt.twins:
                results[i] = twin_error(receipt)
            else:
                del copies[i]

    # -- consequences ----------------------------------------------------------------------

    def _settle(self, after: Job, change: Change, receipt: Receipt) -> None:
        """What a decision means for the rest of the family. Idempotent, and found again by the
        night watch if we die on the way."""
        self.resume(receipt.parents)
        over = after.ended or any(gone.id == after.id for gone in change.deletes)
        if after.open_children and (over or after.waits_for == WAITS_FOR_CHILDREN):
            self._unhold(after, over)

    def _unhold(self, parent: Job, over: bool) -> None:
        held = Filter(
            states=(State.WAITING,),
            parent_id=parent.id,
            waits_for=WAITS_FOR_PARENT,
            limit=_FAMILY_PAGE,
        )
        while children := self.store.find(held):
            now = self.store.now()
            changes = [
                family.unhold(
                    child, None if over else parent, now=now, settings=self.settings(child.queue)
                )
                for child in children
            ]
            if not any(receipt.ok for receipt in self.attempt(changes)):
                return

    def attempt(self, changes: Sequence[Change]) -> Sequence[Receipt]:
        """Commit without insisting: whoever moved first has seen to it."""
        wanted = [change for change in changes if change is not NOTHING]
        if not wanted:
            return ()
        receipts = self.transact(wanted).receipts
        parents = {parent.id: parent for receipt in receipts for parent in receipt.parents}
        self.resume(parents.values())
        return receipts

    def resume(self, parents: Iterable[Job]) -> int:
        """Let parents go on whose last child has ended; tells how many did."""
        free = [p for p in parents if p.waits_for == WAITS_FOR_CHILDREN and not p.open_children]
        woken = [family.resume(parent) for parent in free if not flow.is_flow(parent)]
        moved = sum(receipt.ok for receipt in self.attempt(woken))
        return moved + sum(self._advance(parent) for parent in free if flow.is_flow(parent))

    def _advance(self, job: Job) -> bool:
        """A chain or a group moves on; what stands in its way must not be in anybody else's."""
        telling = Filter(states=flow.telling(job), parent_id=job.id, newest_first=True, limit=1)
        child = next(iter(self.store.find(telling)), None)
        now, settings = self.store.now(), self.settings(job.queue)
        try:
            change = flow.advance(job, child, now=now, settings=settings)
            receipts = self.attempt([change])
        except BadInput as error:
            change = flow.give_up(job, str(error), now=now, settings=settings)
            receipts = self.attempt([change])
        return any(receipt.ok for receipt in receipts)

    # -- settings --------------------------------------------------------------------------

    def settings(self, queue: str) -> QueueSettings:
        """The queue's settings, at most a second old."""
        return self.settings_of([queue])[queue]

    def settings_of(
        self, queues: Iterable[str], *, known: bool = False
    ) -> dict[str, QueueSettings]:
        """The settings of queues, at most a second old; or only of those that are `known`."""
        now = self.store.now()
        found: dict[str, QueueSettings] = {}
        missing: list[str] = []
        for queue in queues:
            kept = self._settings.get(queue)
            if kept is not None and kept[0] <= now < kept[0] + _SETTINGS_AGE:
                found[queue] = kept[1]
            else:
                missing.append(queue)
        return found if known or not missing else found | self._read_settings(missing, now)

    def last_settings(self, queue: str) -> QueueSettings | None:
        """The settings as they were when they were last looked at, however long ago that was."""
        kept = self._settings.get(queue)
        return None if kept is None else kept[1]

    def _read_settings(self, queues: Sequence[str], now: int) -> dict[str, QueueSettings]:
        views = {view.name: view.settings for view in self.store.survey(queues)}
        read = {queue: views.get(queue, DEFAULTS) for queue in queues}
        if len(self._settings) + len(read) > _MOST_SETTINGS:
            self._settings.clear()  # where every job has a queue of its own
        self._settings |= {queue: (now, settings) for queue, settings in read.items()}
        return read

    def forget_settings(self, queue: str) -> None:
        """The settings were changed: read them again."""
        self._settings.pop(queue, None)


def after(before: Job, change: Change) -> Job:
    """The job when a Change about it was committed."""
    for write in change.writes:
        if write.job.id == before.id:
            return applied(before, write)
    for touch in change.touches:
        if touch.id == before.id:
            return msgspec.structs.replace(before, **touch.set)
    return next((job for job in change.last if job.id == before.id), before)


def twin_error(receipt: Receipt) -> Duplicate:
    """The error for a job that would have been another's twin."""
    existing = next(iter(receipt.twins.values()))
    return Duplicate(
        f"job {existing} has the same unique key or reference"
        if existing
        else "two jobs of this call have the same unique key or reference",
        existing_id=existing,
    )


def random_token() -> int:
    """A lease token nobody else has."""
    return secrets.randbits(62) + 1

"""What is done about messages, a batch at a time.

All that came together is seen to together: new jobs first, then what workers say of their jobs,
then who is idle, and in the end jobs for those who are. So each sender's order is kept as far as it
matters, and a batch takes a handful of commits, however long it is. Questions are answered where
they stand.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from stoker.desk import Desk, Twin
from stoker.desk.push import Gift, Post, Push, Sign
from stoker.doors.stdio import listings, words
from stoker.doors.stdio.batch import Batch
from stoker.doors.stdio.intents import Add, Deed, Delete, Idle, Intent, Listing, Said
from stoker.doors.stdio.roster import Roster
from stoker.doors.stdio.settings import Settings
from stoker.doors.stdio.topics import Circumstances, intent_of
from stoker.doors.stdio.wire import Unreadable, read
from stoker.errors import NotFound, Refused, StokerError, StoreError
from stoker.kernel.job import Job
from stoker.kernel.outcome import Finished, Outcome
from stoker.watch.recover import recover

logger = logging.getLogger("stoker.stdio")

_MOST_AT_ONCE = 200
_MOST_ROUNDS = 20
_LONGEST_SHOWN = 1000
_BEAT_SHARE = 10_000  # so many microseconds a worker: about a hundred beats a second for all

Word = tuple[Said, Job]
"""What a worker says, and the job that it has and means."""


class Processor:
    """Jobs from creators, pushed to workers; what it has to say goes to `send`, in whole lines."""

    def __init__(self, desk: Desk, settings: Settings, send: Callable[[bytes], None]) -> None:
        self._desk = desk
        self._settings = settings
        self._send = send
        self._head = settings.letterhead()
        self._roster = Roster(settings.expiry)
        self._given: dict[str, Job] = {}
        self._wanted: set[str] = set()
        self._recover_at = 0

    def handle(self, lines: Iterable[bytes]) -> None:
        """See to what came in."""
        settings, batch = self._settings, Batch()
        around = Circumstances(settings.listener, settings.expiry, self._now())
        for line in lines:
            try:
                intent = intent_of(read(line), around)
            except Unreadable as error:
                logger.error("%s: %s", error, line[:_LONGEST_SHOWN].decode("utf-8", "replace"))
                continue
            if isinstance(intent, Add | Said | Idle):
                batch.take(intent)
            else:
                self._carry_out(batch)
                batch = Batch()
                self._answer(intent)
        self._carry_out(batch)

    def tick(self) -> None:
        """Forget the silent, bring back what is lost, and see who can be given a job."""
        now = self._now()
        self._roster.forget(now)
        self._given = {uuid: job for uuid, job in self._given.items() if (job.until or 0) > now}
        self._recover_at = 0
        self._wanted.update(self._roster.queues())
        self._carry_out(Batch())

    def ring(self, queues: Iterable[str]) -> None:
        """There may be something to do at these queues."""
        self._wanted.update(queues)
        self._dispatch()

    def _now(self) -> int:
        return self._desk.store.now()

    def _carry_out(self, batch: Batch) -> None:
        self._add(batch.adds)
        self._hear(batch.said.values())
        self._recover()
        self._welcome(batch.idle.values())
        self._dispatch()

    # -- creators --------------------------------------------------------------------------

    def _add(self, adds: Sequence[Add]) -> None:
        jobs = [job for add in adds for job in add.jobs]
        try:
            placements = self._desk.intake.enqueue_many(jobs, twin=Twin.RETURN) if jobs else []
        except StoreError:
            raise
        except StokerError as error:
            self._add_apart(adds, error)
            return
        for job, placement in zip(jobs, placements, strict=True):
            if not placement.fresh:
                logger.info("job %s is there already and not added again", words.uuid_of(job))
        self._wanted.update(job.queue for job in jobs)

    def _add_apart(self, adds: Sequence[Add], error: StokerError) -> None:
        """One creator's fault must not become another's."""
        if len(adds) == 1:
            logger.error("not added: %s", error)
            return
        for add in adds:
            self._add([add])

    # -- workers ---------------------------------------------------------------------------

    def _hear(self, said: Collection[Said]) -> None:
        ended: list[Word] = []
        signs: list[Word] = []
        for word in said:
            job = self._held(word)
            if job is not None:
                (ended if word.deed is Deed.FINISHED else signs).append((word, job))
            elif word.deed is not Deed.WORKS:
                _ignore(word)
                continue
            self._roster.busy(word.post, word.seen)
        self._sign_in(word.post for word in said)
        self._note(signs)
        self._finish(ended)

    def _held(self, word: Said) -> Job | None:
        """The job that a worker speaks of, if it has it."""
        job = self._given.get(word.uuid)
        if job is None or not Push.holds(word.post, job):
            job = words.find(self._desk, word.uuid)
        return job if job is not None and Push.holds(word.post, job) else None

    def _note(self, signs: Sequence[Word]) -> None:
        now = self._now()
        results = self._desk.push.hear([self._sign(word, job, now) for word, job in signs])
        for (word, _), result in zip(signs, results, strict=True):
            if isinstance(result, StokerError):
                _ignore(word)
            else:
                self._given[word.uuid] = result

    def _sign(self, word: Said, job: Job, now: int) -> Sign:
        # An old word is no reason to shorten a lease.
        left = max(word.seen + self._settings.lease, job.until or 0) - now
        meta = words.remembered(job, word.words, word.at)
        return Sign(job, left if left > 0 else None, word.progress, meta)

    def _finish(self, ended: Sequence[Word]) -> None:
        if not ended:
            return
        told: list[tuple[Post, Job, Outcome]] = [
            (word.post, job, Finished(_result(word, job))) for word, job in ended
        ]
        results, gifts = self._desk.push.report(told, lease=self._settings.lease)
        for (word, _), result in zip(ended, results, strict=True):
            self._given.pop(word.uuid, None)
            if isinstance(result, StokerError):
                _ignore(word)
            else:
                self._roster.idle(word.post, word.seen)
        self._hand_out(gifts)

    def _welcome(self, idle: Iterable[Idle]) -> None:
        now = self._now()
        young = [each for each in idle if each.seen + self._settings.expiry > now]
        held = {each.post: self._desk.push.held(each.post) for each in young}
        for each in young:
            if held[each.post] is None:
                self._roster.idle(each.post, each.seen, first=each.asks)
            else:
                self._roster.busy(each.post, each.seen)
        self._sign_in(held)
        for each in young:
            if each.seen + self._settings.tick > now:
                self._wanted.add(each.post.queue)
                self._take_back(each, held[each.post])

    def _take_back(self, idle: Idle, job: Job | None) -> None:
        """A worker that is idle, and had accepted a job before it said so, has forgotten it."""
        memo = None if job is None else words.memo_of(job)
        if job is None or memo is None or memo.accepted_at >= idle.at:
            return
        post, uuid = idle.post, words.uuid_of(job)
        logger.info("worker %s is idle: its job %s goes back", post.worker, uuid)
        gifts = self._desk.push.give_back(post, job, lease=self._settings.lease)
        self._given.pop(uuid, None)
        self._roster.idle(post, idle.seen)
        self._hand_out(gifts)

    def _sign_in(self, posts: Iterable[Post]) -> None:
        margin = min(self._settings.tick, len(self._roster) * _BEAT_SHARE)
        for post, seen in self._roster.unsigned(dict.fromkeys(posts), margin):
            ttl = seen + listings.session_life(self._settings.expiry) - self._now()
            if ttl > 0:
                self._desk.push.sign_in(post, ttl=ttl)
                self._roster.sign(post, seen)

    # -- jobs for those who are idle -------------------------------------------------------

    def _recover(self) -> None:
        now = self._now()
        if now < self._recover_at:
            return
        self._recover_at = now + self._settings.tick // 10
        for _ in range(_MOST_ROUNDS):
            if not recover(self._desk.clerk):
                return
            self._wanted.update(self._roster.queues())

    def _dispatch(self) -> None:
        queues, self._wanted = self._wanted, set()
        lease, expiry = self._settings.lease, self._settings.expiry
        while posts := self._offers(queues):
            gifts, taken = self._desk.push.give(posts, lease=lease, mark_for=expiry)
            self._hand_out(gifts)
            for post in taken:
                self._roster.leave(post)
            queues = {gift.post.queue for gift in gifts} | {post.queue for post in taken}

    def _offers(self, queues: Iterable[str]) -> list[Post]:
        """Idle workers of these queues, as many as there are jobs for."""
        now = self._now()
        ready = {queue: self._roster.ready(queue, now) for queue in queues}
        manned = [queue for queue, posts in ready.items() if posts]
        if not manned:
            return []
        waiting = self._desk.push.waiting(manned)
        posts = [post for queue in manned for post in ready[queue][: waiting[queue]]]
        return posts[:_MOST_AT_ONCE]

    def _hand_out(self, gifts: Sequence[Gift]) -> None:
        now, lines = self._now(), []
        for post, job in gifts:
            self._given[words.uuid_of(job)] = job
            self._roster.leave(post)
            topic = f"job_queue/workers/{post.worker}/job_assignment"
            lines.append(self._head.line(topic, words.assignment(job), now))
        if lines:
            self._send(b"".join(lines))

    # -- questions -------------------------------------------------------------------------

    def _answer(self, intent: Intent) -> None:
        if isinstance(intent, Listing):
            books = listings.Books(self._desk, self._roster, self._settings)
            self._reply(intent.tail, listings.answer(books, intent))
        elif isinstance(intent, Delete):
            self._reply("del_job", self._delete(intent))
        else:
            self.tick()

    def _reply(self, tail: str, payload: bytes) -> None:
        self._send(self._head.line(f"job_queue/{tail}/response", payload, self._now()))

    def _delete(self, wish: Delete) -> bytes:
        job = words.find(self._desk, wish.uuid)
        reason: str | None = "there is no such job"
        if job is not None and wish.queue in (None, job.queue):
            reason = self._refusal_to_delete(job)
        queue = job.queue if wish.queue is None and job is not None else wish.queue
        reply = {"uuid": wish.uuid, "queue_name": queue, "deleted": reason is None}
        return msgspec.json.encode(reply if reason is None else {**reply, "reason": reason})

    def _refusal_to_delete(self, job: Job) -> str | None:
        try:
            self._desk.control.delete(job.id)
        except NotFound:
            return "there is no such job"
        except Refused:
            return f"it is {'processing' if words.is_accepted(job) else 'dispatched'}"
        return None


def _result(word: Said, job: Job) -> bytes:
    return words.outcome(job, word.words, worker=word.post.worker, at=word.at)


def _ignore(word: Said) -> None:
    logger.warning(
        "worker %s has not got job %s: that it has %s it is ignored",
        word.post.worker,
        word.uuid,
        word.deed.name.lower(),
    )

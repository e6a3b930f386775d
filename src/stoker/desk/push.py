"""Pushing: jobs go to workers that have said they wait for one.

A *post* is a worker at one queue, with room for one job; its session bears the worker's name. Any
number of processes may speak for a post: what it holds is in the store, and a *mark* keeps two of
them from giving a job each to a post that both believe idle. A mark lapses by itself, since whoever
set it may die, and is not needed while the post holds a job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from stoker.desk.clerk import Clerk, Decision, Grants, Result
from stoker.desk.dispatch import Dispatch
from stoker.desk.report import Report
from stoker.desk.workers import WorkerInfo
from stoker.errors import StokerError
from stoker.kernel import rules
from stoker.kernel.change import Change, NoteWrite
from stoker.kernel.job import QUEUED, RUNNING, Job
from stoker.kernel.outcome import Outcome, Released
from stoker.store import Claim, Filter, Session


class Post(NamedTuple):
    """A worker at a queue.

    >>> Post("worker 7", "mail").session == Post("worker 7", "mail").session
    True
    """

    worker: str
    queue: str

    @property
    def session(self) -> int:
        """The session of this post, the same for everybody who speaks for it."""
        return _session_of(self.worker, self.queue)


class PostView(NamedTuple):
    """A post at a glance."""

    post: Post
    expires_at: int
    busy: bool


class Sign(NamedTuple):
    """A sign of life about a job: a later deadline, its progress, something to remember."""

    job: Job
    visibility: int | None = None
    progress: float | None = None
    meta: str | None = None


class Gift(NamedTuple):
    """A job, and the post it was given to."""

    post: Post
    job: Job


class Given(NamedTuple):
    """Who was given a job, and who is spoken for by somebody else."""

    gifts: list[Gift]
    taken: list[Post]


class Push:
    """Giving jobs to posts, and hearing from them."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk
        self._dispatch = Dispatch(clerk)
        self._report = Report(clerk)

    # -- posts -----------------------------------------------------------------------------

    def sign_in(self, post: Post, *, ttl: int) -> None:
        """The worker lives: its session lasts for another `ttl` microseconds."""
        store = self._clerk.store
        if not store.beat(post.session, ttl).alive:
            info = WorkerInfo(queues=(post.queue,), concurrency=1)
            text = msgspec.json.encode(info).decode()
            store.enrol(Session(post.session, post.worker, text), ttl)

    def posts(self, queue: str) -> list[PostView]:
        """The posts at a queue that are on the books."""
        store = self._clerk.store
        signed = [(Post(each.name, queue), each) for each in store.sessions()]
        here = [(post, session) for post, session in signed if post.session == session.id]
        marks = store.notes([_mark(post) for post, _ in here])
        return [
            PostView(post, session.expires_at, _mark(post) in marks or self.held(post) is not None)
            for post, session in here
        ]

    def held(self, post: Post) -> Job | None:
        """The job that the post has, accepted or not."""
        held = Filter(states=(RUNNING,), session=post.session, limit=1)
        return next(iter(self._clerk.store.find(held)), None)

    @staticmethod
    def holds(post: Post, job: Job) -> bool:
        """Whether the job is the post's to speak about."""
        return job.state is RUNNING and job.session == post.session

    # -- giving ----------------------------------------------------------------------------

    def give(self, posts: Sequence[Post], *, lease: int, mark_for: int) -> Given:
        """Give each of these idle posts a job of its queue, as far as there are any.

        A job that is not heard of within `lease` goes back. `mark_for` is how long others may go
        on believing that the post is idle.
        """
        clerk = self._clerk
        until = clerk.store.now() + mark_for
        marks = [
            Change(notes=(NoteWrite(_mark(post), b"", until=until, expect=0),)) for post in posts
        ]
        answer = clerk.transact(marks, self._claims(posts, lease))
        ours = {post for post, receipt in zip(posts, answer.receipts, strict=True) if receipt.ok}
        gifts = self._gifts(posts, answer.grants, ours)
        self.unmark(ours - {gift.post for gift in gifts})
        return Given(gifts, [post for post in posts if post not in ours])

    def unmark(self, posts: Iterable[Post]) -> None:
        """These posts are free for whoever comes first."""
        notes = tuple(NoteWrite(_mark(post), None) for post in sorted(posts))
        if notes:
            self._clerk.transact([Change(notes=notes)])

    def _claims(self, posts: Sequence[Post], lease: int) -> list[Claim]:
        """A claim for each post. They are made in one step, and share a token as the jobs of one
        claim do."""
        token, claimable = self._clerk.token(), self._dispatch.opening.claimable
        queues = {queue: claimable([queue]) for queue in {post.queue for post in posts}}
        return [Claim(queues[post.queue], 1, token, post.session, lease) for post in posts]

    def _gifts(self, posts: Sequence[Post], grants: Grants, ours: set[Post]) -> list[Gift]:
        """What came of the claims; a job for a post that is not ours to give to goes back."""
        claimed = [
            Gift(post, job)
            for post, grant in zip(posts, grants, strict=True)
            for job in grant or ()
        ]
        may_start = {job.id for job in self._dispatch.granted([gift.job for gift in claimed])}
        granted = [gift for gift in claimed if gift.job.id in may_start]
        now = self._clerk.store.now()
        back = [rules.release(gift.job, now=now) for gift in granted if gift.post not in ours]
        self._clerk.attempt(back)
        return [gift for gift in granted if gift.post in ours]

    # -- hearing ---------------------------------------------------------------------------

    def hear(self, signs: Sequence[Sign]) -> list[Result]:
        """Signs of life, each on its own; gives the jobs as they are then."""
        now = self._clerk.store.now()
        decisions = [
            Decision(sign.job.id, partial(_noted, sign=sign, now=now), sign.job) for sign in signs
        ]
        return self._clerk.decide_all(decisions).results if decisions else []

    def report(
        self, said: Sequence[tuple[Post, Job, Outcome]], *, lease: int
    ) -> tuple[list[Result | None], list[Gift]]:
        """What posts say has come of their jobs. They are given the next ones in the same step,
        so that nobody else sees them idle in between."""
        posts = list(dict.fromkeys(post for post, _, _ in said))
        eager = self._eager(posts)
        claims = self._claims(eager, lease)
        results, grants = self._report.many([(job, what) for _, job, what in said], claims)
        freed = {
            post
            for (post, _, _), result in zip(said, results, strict=True)
            if not isinstance(result, StokerError)
        }
        gifts = self._gifts(eager, grants, freed)
        self.unmark(freed - {gift.post for gift in gifts})
        return results, gifts

    def give_back(self, post: Post, job: Job, *, lease: int) -> list[Gift]:
        """The post has forgotten its job: it goes back to its place, and the post gets another."""
        return self.report([(post, job, Released())], lease=lease)[1]

    def waiting(self, queues: Iterable[str]) -> Counter[str]:
        """How many jobs wait at these queues."""
        views = self._clerk.store.survey([*set(queues)])
        return Counter({view.name: view.counts[QUEUED] for view in views})

    def _eager(self, posts: Sequence[Post]) -> list[Post]:
        """As many posts as there are jobs for."""
        left = self.waiting(post.queue for post in posts)
        eager = []
        for post in posts:
            if left[post.queue] > 0:
                left[post.queue] -= 1
                eager.append(post)
        return eager


def _noted(job: Job, sign: Sign, now: int) -> Change:
    if sign.meta is None:
        return rules.touch(job, now=now, visibility=sign.visibility, progress=sign.progress)
    return rules.remark(
        job, now=now, visibility=sign.visibility, progress=sign.progress, meta=sign.meta
    )


def _mark(post: Post) -> str:
    return f"post:{post.session}"


@lru_cache(maxsize=100_000)
def _session_of(worker: str, queue: str) -> int:
    named = msgspec.json.encode([queue, worker])
    return int.from_bytes(blake2b(named, digest_size=8).digest()) >> 2 or 1

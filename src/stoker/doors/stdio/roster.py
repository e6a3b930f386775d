"""The workers that were heard of here, and which of them are idle.

Others may hear of other workers, or of the same. What they must agree on is in the store; this is
only whom it makes sense to offer a job.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.desk.push import Post


class Roster:
    """Who was heard of when, and who is idle, longest first.

    >>> roster = Roster(expiry=9)
    >>> for worker in ("ann", "bob"):
    ...     roster.idle(Post(worker, "mail"), seen=1)
    >>> roster.busy(Post("ann", "mail"), seen=2)
    >>> [post.worker for post in roster.ready("mail", now=9)], roster.ready("mail", now=10)
    (['bob'], [])
    """

    def __init__(self, expiry: int) -> None:
        self._expiry = expiry
        self._seen: dict[Post, int] = {}
        self._signed: dict[Post, int] = {}
        self._idle: dict[str, dict[Post, None]] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def idle(self, post: Post, seen: int, *, first: bool = False) -> None:
        """The worker waits for a job; `first`: it comes before those that have waited longer."""
        self._hear(post, seen)
        waiting = self._idle.setdefault(post.queue, {})
        if first:
            self._idle[post.queue] = {post: None, **waiting}
        else:
            waiting.setdefault(post)

    def busy(self, post: Post, seen: int) -> None:
        """The worker has something to do."""
        self._hear(post, seen)
        self.leave(post)

    def leave(self, post: Post) -> None:
        """The worker is not to be offered anything until it says that it is idle."""
        waiting = self._idle.get(post.queue, {})
        waiting.pop(post, None)
        if not waiting:
            self._idle.pop(post.queue, None)

    def _hear(self, post: Post, seen: int) -> None:
        self._seen[post] = max(seen, self._seen.get(post, seen))

    def last_seen(self, post: Post) -> int | None:
        """When the worker was last heard of here."""
        return self._seen.get(post)

    def queues(self) -> list[str]:
        """The queues at which somebody is idle."""
        return list(self._idle)

    def ready(self, queue: str, now: int) -> list[Post]:
        """The idle workers of a queue that are not silent for too long."""
        waiting = self._idle.get(queue, {})
        return [post for post in waiting if self._seen[post] + self._expiry > now]

    def forget(self, now: int) -> None:
        """Forget those who have been silent for too long."""
        silent = [post for post, seen in self._seen.items() if seen + self._expiry <= now]
        for post in silent:
            self.leave(post)
            self._seen.pop(post)
            self._signed.pop(post, None)

    def unsigned(self, posts: Iterable[Post], margin: int) -> list[tuple[Post, int]]:
        """Those of whom nobody else knows, or not within `margin`, when they were last heard of."""
        heard = [(post, self._seen[post]) for post in posts if post in self._seen]
        return [
            (post, seen)
            for post, seen in heard
            if post not in self._signed or seen > self._signed[post] + margin
        ]

    def sign(self, post: Post, seen: int) -> None:
        """Everybody knows by now."""
        self._signed[post] = seen

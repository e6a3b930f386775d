"""What a run of messages wants, sorted by what is to be done about it."""

from __future__ import annotations

from stoker.desk.push import Post
from stoker.doors.stdio.intents import Add, Idle, Said


class Batch:
    """New jobs, the words of workers about their jobs, and who is idle."""

    def __init__(self) -> None:
        self.adds: list[Add] = []
        self.said: dict[tuple[Post, str], Said] = {}
        self.idle: dict[Post, Idle] = {}

    def take(self, intent: Add | Said | Idle) -> None:
        """Sort one in; what a worker says of one job, bit by bit, becomes one word."""
        if isinstance(intent, Add):
            self.adds.append(intent)
        elif isinstance(intent, Idle):
            self.idle[intent.post] = intent
        else:
            about = (intent.post, intent.uuid)
            before = self.said.get(about)
            self.said[about] = intent if before is None else _both(before, intent)


def _both(first: Said, then: Said) -> Said:
    return then._replace(
        deed=max(first.deed, then.deed),
        seen=max(first.seen, then.seen),
        words={**first.words, **then.words},
        progress=first.progress if then.progress is None else then.progress,
    )

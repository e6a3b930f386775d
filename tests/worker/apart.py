"""An app whose task runs in a process of its own, with middleware on both sides of it."""

from __future__ import annotations

from stoker import Context, Middleware, Stoker
from stoker.kernel.outcome import Outcome

seen: list[str] = []
"""What middleware has seen in this process."""


class There(Middleware):
    """Called where the handler runs."""

    def before(self, context: Context) -> None:
        seen.append(f"there before {context.job.name}")


class Here(Middleware):
    """Called in the worker."""

    in_worker = True

    def before(self, context: Context) -> None:
        seen.append(f"here before {context.job.name}")
        if context.job.payload == b'{"word":"forbidden"}':
            raise PermissionError("not today")

    def after(self, context: Context, outcome: Outcome) -> None:
        seen.append(f"here after {type(outcome).__name__}")


app = Stoker("memory:", middleware=[There(), Here()])


@app.task(name="tell", place="process")
def tell(word: str) -> list[str]:
    """What was seen in the process that runs this."""
    return seen

"""Standard input, output and errors: also where one is closed, full, or has nobody who reads."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any


class Unwritten(Exception):
    """The output cannot be written."""

    def __init__(self, why: OSError) -> None:
        super().__init__(f"the output cannot be written: {why.strerror}")
        self.unwanted = isinstance(why, BrokenPipeError)
        """Did whoever reads it have enough?"""


class _Output(TextIOWrapper):
    """Tells its own troubles from everybody else's."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise Unwritten(error) from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise Unwritten(error) from error


class _Remarks(TextIOWrapper):
    """Goes on in silence where nobody can be told: there is the exit code."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def set_up() -> None:
    """Streams that can be used, whatever we were started with."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _keep(number)
            nothing = Path(os.devnull).open("w" if number else "r", encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, nothing)
    sys.stdout, sys.stderr = _as(_Output, sys.stdout), _as(_Remarks, sys.stderr)


def _keep(number: int) -> None:
    """Let no file of ours, least of all a store's, get the number of a stream that is closed: what
    somebody prints there would go into it. To those who write to the number it stays closed."""
    taken = os.open(os.devnull, os.O_RDONLY)
    if taken == number:
        os.set_inheritable(taken, True)
    else:
        os.close(taken)


def _as(kind: type[TextIOWrapper], stream: Any) -> Any:
    if not isinstance(stream, TextIOWrapper):
        return stream  # somebody's own
    encoding, by_line, at_once = stream.encoding, stream.line_buffering, stream.write_through
    return kind(
        stream.detach(),
        encoding=encoding,
        errors="replace",  # better a ? than no answer
        line_buffering=by_line,
        write_through=at_once,
    )


def drop_output() -> None:
    """Forget what could not be written, so that nobody tries again in the end."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())

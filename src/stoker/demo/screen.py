"""What one sees of the show: lines that stay, and below them a picture that is drawn anew.

Where there is no terminal, the picture is told in a line each second.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

DIM, RED, GREEN, YELLOW, BLUE, CYAN = "2", "31", "32", "33", "34", "36"

# On a narrow screen a line of the picture is cut off, so that it stays one line to be taken away.
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"


class Screen:
    """Where the show is told. Knows what time it is in the show."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._live = sys.stdout.isatty()
        self._coloured = self._live and "NO_COLOR" not in os.environ
        blocks = "utf" in (sys.stdout.encoding or "").lower()
        self._full, self._empty = ("█", "░") if blocks else ("#", ".")
        self._drawn = 0
        self._next_line = 1.0

    @property
    def elapsed(self) -> float:
        """Seconds since the show began."""
        return time.monotonic() - self._began

    def paint(self, text: str, colour: str) -> str:
        """The text in colour, where there are colours."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self._coloured else text

    def bar(self, done: float, planned: float, colour: str, width: int = 30) -> str:
        """How much of something is done, or taken."""
        filled = min(width, int(width * done / planned))
        full, empty = self._full * filled, self._empty * (width - filled)
        return self.paint(full, colour) + self.paint(empty, DIM)

    def say(self, text: str) -> None:
        """A line that stays."""
        clock = self.paint(f"{self.elapsed:5.1f} s ", DIM)
        print(f"{self._erased()}{clock} {text}", flush=True)

    def draw(self, picture: Sequence[str], in_words: str) -> None:
        """How things stand now."""
        if self._live:
            drawn = "\n".join(["", *picture])
            print(f"{self._erased()}{_NO_WRAP}{drawn}{_WRAP}", flush=True)
            self._drawn = len(picture) + 1
        elif self.elapsed >= self._next_line:
            self._next_line += 1.0
            self.say(in_words)

    def end(self, *lines: str) -> None:
        """The last words; the picture above them stays."""
        self._drawn = 0
        print("", *lines, sep="\n", flush=True)

    def _erased(self) -> str:
        """What takes the picture away; sent along with what comes instead, so nothing flickers."""
        drawn, self._drawn = self._drawn, 0
        return f"\x1b[{drawn}F\x1b[J" if drawn else ""

"""One queue's page in the books of a transaction."""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.kernel.queue import DEFAULTS, QueueSettings

_SETTINGS = msgspec.json.Decoder(QueueSettings)


class QueueBook:
    """A queue's settings and counters, kept current during the transaction."""

    __slots__ = ("changed", "clock", "counts", "id", "laned", "name", "settings", "used")

    def __init__(self, row: tuple[Any, ...], settings: QueueSettings) -> None:
        self.id: int = row[0]
        self.name: str = row[1]
        self.settings = settings
        self.counts: list[int] = list(row[3:9])
        self.used: int = row[9]
        self.laned: int = row[10]
        self.clock: int = row[11]
        self.changed = False

    @property
    def first_turn(self) -> int:
        """The turn of those who have not been served of late. The clock outlives fairness."""
        return self.clock if self.settings.fair else 0


class SettingsReader:
    """Decodes settings, remembering what it has seen: few texts serve many queues."""

    def __init__(self) -> None:
        self._seen: dict[str, QueueSettings] = {"{}": DEFAULTS}

    def __call__(self, text: str) -> QueueSettings:
        if text not in self._seen:
            if len(self._seen) > 1000:
                self._seen = {"{}": DEFAULTS}
            self._seen[text] = _SETTINGS.decode(text)
        return self._seen[text]

"""Log entries, one JSON object a line."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import msgspec

from stoker.doors.stdio.wire import stamp

logger = logging.getLogger("stoker.stdio")

LEVELS = ("critical", "error", "warning", "info", "debug")


class JsonLines(logging.Handler):
    """Gives each entry to `write` as one line.

    >>> handler = JsonLines(lambda line: print(line.decode().split(",", 1)[0] + ", ..."))
    >>> handler.handle(logging.makeLogRecord({"levelname": "INFO", "msg": 'a "line"\\n'}))
    {"log_level":"info", ...
    True
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        """Write an entry; a log that cannot be written is no reason to end."""
        try:
            self._write(entry(record.levelname, self.format(record), round(record.created * 1e6)))
        except Exception:  # noqa: BLE001 - logging has its own way with its troubles
            self.handleError(record)


def entry(level: str, message: str, at: int | None = None) -> bytes:
    """One entry, as a line."""
    moment = time.time_ns() // 1000 if at is None else at
    whole = message.encode("utf-8", "replace").decode()
    told = {"log_level": level.lower(), "created_at": stamp(moment), "log_message": whole}
    return msgspec.json.encode(told) + b"\n"


def set_up(level: str, write: Callable[[bytes], None]) -> None:
    """From now on whatever is logged in this process goes to `write`."""
    known = level.lower() in LEVELS
    root = logging.getLogger()
    root.handlers = [JsonLines(write)]
    root.setLevel(level.upper() if known else "INFO")
    logging.captureWarnings(capture=True)
    if not known:
        logger.warning("LOG_LEVEL %r is none of %s: it is info", level, ", ".join(LEVELS))

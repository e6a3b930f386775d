"""URLs of stores and brokers: nothing of them gets lost, and passwords are not shown."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, urlsplit

from stoker.errors import BadInput

_LAST_PORT = 65_535
_LONGEST_PATIENCE = 3600
_PORT = re.compile(r"[0-9]{1,5}")
# Up to the last @, since a password may hold what it should not.
_PASSWORD = re.compile(r"(?<=://)([^/@:]*:).*@")
_PASSWORD_BEHIND = re.compile(r"(?<=[?&])(\w*password=)[^&]*")


def shown(url: str) -> str:
    """The URL as it may be shown to anybody: without its password.

    >>> shown("redis://ann:secret@db:6379/0")
    'redis://ann:***@db:6379/0'
    """
    return _PASSWORD_BEHIND.sub(r"\1***", _PASSWORD.sub(r"\1***@", url))


def split(url: str) -> SplitResult:
    """Its parts, if it is clear where each begins.

    >>> split("redis://db:6379/0").netloc
    'db:6379'
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise BadInput(f"cannot read {shown(url)!r}: {error}") from None
    if "#" in url:
        raise BadInput(f"a # ends a URL; in {shown(url)!r} write it as %23")
    if ":" in parts.netloc and "@" in parts.path:
        raise BadInput(
            f"cannot tell where the host begins in {shown(url)!r}; write / in a password as %2F, "
            "and @ elsewhere as %40"
        )
    return parts


def options_of(url: str) -> dict[str, str]:
    """What is said behind its ?, each by its name.

    >>> options_of("sqlite:///jobs.db?sync=normal")
    {'sync': 'normal'}
    """
    options = dict(parse_qsl(split(url).query, keep_blank_values=True))
    if not all(options.values()):
        raise BadInput(
            f"cannot read what is behind the ? of {shown(url)!r}: an option is written "
            "name=value, and a ? that belongs to a name or password %3F"
        )
    return options


def read_patience(text: str, least: float = 0.0) -> float:
    """The seconds for which trouble with a server is waited out.

    >>> read_patience("2.5")
    2.5
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not least <= seconds <= _LONGEST_PATIENCE:
        raise BadInput(
            f"patience is a number of seconds from {least:g} to {_LONGEST_PATIENCE}, not {text!r}"
        )
    return seconds


def read_port(text: str) -> int | None:
    """The port that a text is; None: it is none.

    >>> read_port("6379"), read_port("65536"), read_port("")
    (6379, None, None)
    """
    port = int(text) if _PORT.fullmatch(text) else _LAST_PORT + 1
    return port if port <= _LAST_PORT else None

"""How the HTTP door is set up: one value, with a reason for every number."""

from __future__ import annotations

import ssl
from typing import NamedTuple


class Settings(NamedTuple):
    """Times are in seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 8080
    tls: ssl.SSLContext | None = None
    insecure: bool = False
    """Serve whoever can reach the address, also without any token."""
    rate: float | None = None
    """Requests a second that each token may make, if the token says nothing else."""
    callbacks: tuple[str, ...] = ()
    """What the URLs to which results are posted must begin with; none: nothing is posted."""
    callback_secrets: tuple[str, ...] = ()
    """By which answers are signed that come without a token; none: they are refused."""

    largest_body: int = 8 * 2**20
    largest_head: int = 64 * 2**10
    head_seconds: float = 10.0
    """In which a request's head must be there, once its connection or its first byte is."""
    body_seconds: float = 30.0
    """In which its body must be there, once its head is."""
    send_seconds: float = 60.0
    """In which a client must take something of what it is sent: the kernel lets us see that only
    when it has taken some hundred kilobytes."""
    idle_seconds: int = 75
    """For which a connection is kept without a request: a little longer than by most proxies, so
    that they are the ones to let go of it."""
    longest_wait: float = 50.0
    """For which a claim or a look may wait: a little shorter than by most proxies."""
    connections: int = 10_000
    streams: int = 1_000
    """Event streams at once."""
    grace: float = 10.0
    """For requests that are being served when the door closes."""

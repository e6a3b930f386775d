"""Who may answer over HTTP without a token: whoever has a URL that we signed, or knows the secret.

A signed URL is good for one key and for a time; it goes out with the request. A signed request is
for services that sign whatever they send.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Sequence
from urllib.parse import quote

from stoker.errors import BadInput

SECOND = 1_000_000
WINDOW = 300
"""Seconds by which the time of a signed request may be off."""
_MOST_DIGITS = 19

BASE_VARIABLE, SECRET_VARIABLE = "STOKER_CALLBACK_URL", "STOKER_CALLBACK_SECRET"


def callback_url(
    key: str, expires: int, *, base: str | None = None, secret: str | None = None
) -> str:
    """Where the answer with this key may be posted until `expires`, in microseconds.

    The address of the server and the secret are those of the environment if they are not given:
    STOKER_CALLBACK_URL, and the first word of STOKER_CALLBACK_SECRET.

    >>> url = callback_url("order 7", 1_900_000_000 * SECOND, base="https://jobs", secret="x")
    >>> url.partition("&")[0]
    'https://jobs/v1/callbacks/order%207?expires=1900000000'
    """
    where = base or os.environ.get(BASE_VARIABLE)
    secrets = [secret] if secret else os.environ.get(SECRET_VARIABLE, "").split()
    if not where or not secrets:
        raise BadInput(
            f"a callback needs the server's address and secret: set {BASE_VARIABLE}, as in "
            f"https://jobs.example.com, and {SECRET_VARIABLE}"
        )
    until = str(expires // SECOND)
    path = f"{where.rstrip('/')}/v1/callbacks/{quote(key, safe='')}"
    return f"{path}?expires={until}&signature={_signed(secrets[0], _URL, until, key)}"


def sign_request(secret: str, key: str, body: bytes, now: int) -> str:
    """The header Stoker-Signature for an answer that is sent now.

    >>> sign_request("x", "order 7", b"true", 1_900_000_000 * SECOND)[:20]
    't=1900000000,v1=95a6'
    """
    at = str(now // SECOND)
    return f"t={at},v1={_signed(secret, _REQUEST, at, key, body)}"


def is_good_url(secrets: Sequence[str], key: str, expires: int, signature: str, now: int) -> bool:
    """Whether one of the secrets signed this URL, and it is not too old."""
    wanted = [_signed(secret, _URL, str(expires), key) for secret in secrets]
    return _is_one_of(signature, wanted) and now < expires * SECOND


def is_good_request(secrets: Sequence[str], key: str, body: bytes, header: str, now: int) -> bool:
    """Whether one of the secrets signed this request, just now."""
    parts = dict(part.strip().partition("=")[::2] for part in header.split(","))
    at, signature = parts.get("t", ""), parts.get("v1", "")
    # Python refuses to read very long numbers.
    is_moment = at.isascii() and at.isdigit() and len(at) <= _MOST_DIGITS
    if not is_moment or abs(now - int(at) * SECOND) > WINDOW * SECOND:
        return False
    return _is_one_of(signature, [_signed(secret, _REQUEST, at, key, body) for secret in secrets])


# What is signed for one purpose is no good for the other.
_URL, _REQUEST = "url", "request"


def _signed(secret: str, purpose: str, at: str, key: str, body: bytes = b"") -> str:
    # The key as it stands in the path: so no line of it can pass for the body's.
    said = f"{purpose}\n{at}\n{quote(key, safe='')}\n".encode() + body
    return hmac.new(secret.encode(), said, hashlib.sha256).hexdigest()


def _is_one_of(signature: str, wanted: Sequence[str]) -> bool:
    # Compared in a time that tells nothing about how much of it is right.
    return any(hmac.compare_digest(signature.encode(), each.encode()) for each in wanted)

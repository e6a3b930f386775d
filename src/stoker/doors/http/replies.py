"""Operations for answers from outside: with a token, or signed."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Raw

from stoker.desk import Reply
from stoker.desk.signing import is_good_request, is_good_url
from stoker.doors.http.answers import Answer, told
from stoker.doors.http.endpoint import Call, Operation
from stoker.doors.http.problems import Forbidden, Unauthorized
from stoker.errors import BadInput

_HEADER = b"stoker-signature"


class Answered(msgspec.Struct, frozen=True):
    """What became of a reply: delivered; kept for a minute; late, since its job waits for it no
    longer; or repeated, since its question is answered."""

    reply: str


class Signed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a signed URL says."""

    expires: int | None = None
    signature: str | None = None


async def reply(call: Call) -> Answer:
    """Answer the job that waits for this key, or will."""
    return await _answered(call)


async def callback(call: Call) -> Answer:
    """The same for those without a token: the URL is signed, or the request is."""
    signature = _checked(call)
    # Who sends it again, or has overheard it, does not answer a second time.
    once = hashlib.sha256(signature.encode() + b"\n" + call.raw).hexdigest()
    return await _answered(call, once=f"http:{once}")


async def _answered(call: Call, once: str | None = None) -> Answer:
    desk, key = call.office.desk, call.path["key"]
    if not key:
        raise BadInput("a reply needs a key that both sides can name; it cannot be empty")
    became: Reply = await call.office.run(desk.control.reply, key, bytes(call.body), once=once)
    call.office.observer.nudge()
    return told(Answered(became.value))


def _checked(call: Call) -> str:
    """The signature, if it is good."""
    secrets, key, said = call.office.settings.callback_secrets, call.path["key"], call.query
    now = call.office.desk.store.now()
    if not secrets:
        raise Forbidden("this server takes no callbacks; start it with --http-callback-secret")
    header = call.headers.get(_HEADER, b"").decode("latin-1")
    if header:
        good, signature = is_good_request(secrets, key, call.raw, header, now), header
    elif said.expires is not None and said.signature:
        good, signature = (
            is_good_url(secrets, key, said.expires, said.signature, now),
            said.signature,
        )
    else:
        raise Unauthorized("neither the URL nor the request is signed")
    if not good:
        raise Unauthorized("the signature is wrong, or too old")
    return signature


OPERATIONS = [
    Operation(
        *("POST", "/v1/replies/{key:path}", reply, "Answer the job that waits for this key"),
        scopes=("enqueue", "work", "operate"),
        body=Raw,
        answers={200: Answered},
        once=True,
    ),
    Operation(
        *("POST", "/v1/callbacks/{key:path}", callback, "The same, signed instead of a token"),
        body=Raw,
        query=Signed,
        answers={200: Answered},
        problems=("unauthorized", "forbidden"),
        headers={"Stoker-Signature": "t=SECONDS,v1=HMAC, unless the URL is signed."},
    ),
]

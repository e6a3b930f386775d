"""Jobs that were started for whoever stood in wait, as they are told through a channel."""

from __future__ import annotations

from base64 import b64decode, b64encode
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from stoker.errors import StokerError
from stoker.kernel.job import Job
from stoker.store import Claim
from stoker.store.standing import started_for

_LONGEST = 7000
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(Job).decode


class Errand(msgspec.Struct, array_like=True):
    """What the server tells of one."""

    session: int
    token: int
    visibility: int | None
    job: int
    started_at: int
    about: str | None
    """None: it is too long for a message."""

    def started(self) -> Job | None:
        """The job as it runs, if it came along."""
        if self.about is None:
            return None
        with suppress(
            msgspec.MsgspecError, ValueError, StokerError
        ):  # by another version, which knows more of jobs
            return self._started(self.about)
        return None

    def _started(self, about: str) -> Job:
        job = replace(_DECODE(b64decode(about)), id=self.job)
        claim = Claim((job.queue,), 1, self.token, self.session, self.visibility)
        return started_for(claim, job, self.started_at)


read_errand = msgspec.json.Decoder(Errand).decode


def told_of(job: Job) -> bytes | None:
    """What a new job is about, unless it is too long for a message."""
    told = b64encode(_ENCODE(job))
    return told if len(told) <= _LONGEST else None

"""Claims that stand, inside one transaction: they are left, and served by whoever brings a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from stoker.kernel.job import QUEUED, Job
from stoker.store import Claim
from stoker.store.sqlite.entrances import Entrances
from stoker.store.sqlite.lane_view import SQL
from stoker.store.sqlite.library import Connection
from stoker.store.sqlite.many import for_all
from stoker.store.sqlite.queue_book import QueueBook
from stoker.store.sqlite.transaction import Transaction
from stoker.store.standing import lets_start_at_once, started_for


class Errand(NamedTuple):
    """A new job as somebody runs it, and where to tell of it."""

    job: Job
    ear: str


def leave_standing(tx: Transaction, claims: Iterable[Claim], grants: Iterable[object]) -> None:
    """Whoever claims stands no more, or again if there was nothing and it is willing to wait."""
    for claim, grant in zip(claims, grants, strict=True):
        stays = claim.stands is not None and grant == []
        if claim.session is None or (stays and _stands(tx, claim)):
            continue
        stand_no_more(tx.connection, claim.session)
        if stays:
            wish = (tx.now, claim.session, claim.token, claim.visibility, claim.stands)
            for_all(tx.connection, SQL["stand"], [(queue, *wish) for queue in set(claim.queues)])


def _stands(tx: Transaction, claim: Claim) -> bool:
    """Has this very claim been left standing before? Then there is nothing to write."""
    wish = (claim.session, claim.token)
    standing = {queue for (queue,) in tx.connection.execute(SQL["stands"], wish)}
    return standing == set(claim.queues)


def stand_no_more(connection: Connection, session: int) -> None:
    """Nobody is to serve this session any more."""
    connection.execute(SQL["stand_no_more"], (session,))


def errand_for(tx: Transaction, job: Job, listens: Callable[[str], bool]) -> Errand | None:
    """A new job for somebody who stands in wait for one, unless others are ahead of it. Whoever no
    longer listens has died."""
    wishes = tx.connection.execute(SQL["standing"], (job.queue, tx.now)).fetchall()
    if not wishes:
        return None
    book = tx.books.queue(job.queue)
    if not lets_start_at_once(book.settings) or _is_anybody_due(tx, book):
        return None
    for token, session, visibility, ear in wishes:
        stand_no_more(tx.connection, session)
        if listens(ear):
            claim = Claim((job.queue,), 1, token, session, visibility)
            return Errand(started_for(claim, job, tx.now), ear)
    return None


def _is_anybody_due(tx: Transaction, book: QueueBook) -> bool:
    return bool(book.counts[QUEUED] and Entrances(tx, [book], 1).chosen())

"""Claims that stand, inside one transaction: they are left, and served by whoever brings a job."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.kernel.job import Job
from stoker.store import Claim
from stoker.store.sqlite.entrances import Entrances
from stoker.store.sqlite.lane_view import SQL
from stoker.store.sqlite.library import Connection
from stoker.store.sqlite.many import for_all
from stoker.store.sqlite.transaction import Transaction
from stoker.store.standing import lets_start_at_once, started_for


def leave_standing(tx: Transaction, claims: Iterable[Claim], grants: Iterable[object]) -> None:
    """Whoever claims stands no more, or again if there was nothing and it is willing to wait."""
    for claim, grant in zip(claims, grants, strict=True):
        if claim.session is None:
            continue
        stand_no_more(tx.connection, claim.session)
        if claim.stands and grant == []:
            wish = (claim.session, claim.token, claim.visibility, tx.now)
            for_all(tx.connection, SQL["stand"], [(queue, *wish) for queue in set(claim.queues)])


def stand_no_more(connection: Connection, session: int) -> None:
    """Nobody is to serve this session any more."""
    connection.execute(SQL["stand_no_more"], (session,))


def errand_of(tx: Transaction, job: Job) -> Job | None:
    """A new job as somebody runs it who stands in wait for one, unless others are ahead of it."""
    found = tx.connection.execute(SQL["standing"], (job.queue, tx.now)).get
    if found is None:
        return None
    book = tx.books.queue(job.queue)
    if not lets_start_at_once(book.settings) or Entrances(tx, [book], 1).chosen():
        return None
    token, session, visibility = found
    stand_no_more(tx.connection, session)
    return started_for(Claim((job.queue,), 1, token, session, visibility), job, tx.now)

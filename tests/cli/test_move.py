"""`stoker move`: from one file to another, and what is said on the way."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.store.open import open_store
from tests.cli.conftest import Cli, document

OLD, NEW = "sqlite:///jobs.db?sync=normal", "sqlite:///new.db?sync=normal"


def test_all_jobs_move_and_the_old_store_says_where_to(cli: Cli, jobs: Desk) -> None:
    ids = [placed.id for placed in jobs.intake.enqueue_many([Job("mail")] * 3)]
    moved = cli("move", OLD, NEW)
    assert moved.exit_code == 0
    assert moved.stdout == f"3 jobs moved to {NEW}; start the workers there\n"
    with closing(open_store(NEW)) as store:
        assert [job.id for job in Desk(store).dispatch.claim(["mail"], 9)] == ids
    late = cli("enqueue", "--queue", "mail", "send")
    assert late.exit_code == 4
    assert late.stderr == f"stoker: error: the jobs of {OLD} have moved to {NEW}; open that store\n"


def test_programs_are_told_in_json(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue(Job("mail"))
    assert document(cli("move", OLD, NEW, "--json")) == {"moved": 1, "abandoned": False}


def test_what_still_runs_after_the_grace_goes_too(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue(Job("mail"))
    (held,) = jobs.dispatch.claim(["mail"])
    assert cli("move", OLD, NEW, "--grace", "0s").exit_code == 0
    with closing(open_store(NEW)) as store:
        assert store.get([held.id])[held.id].state is State.QUEUED


def test_a_move_into_a_store_in_use_is_refused(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue(Job("mail"))
    with closing(open_store(NEW)) as store:
        Desk(store).intake.enqueue(Job("mail"))
    refused = cli("move", OLD, NEW)
    assert refused.exit_code == 2
    assert "holds jobs already: move into a store that is empty" in refused.stderr
    assert jobs.dispatch.claim(["mail"])


def test_a_store_does_not_move_into_itself(cli: Cli, jobs: Desk) -> None:
    refused = cli("move", OLD, OLD)
    assert (refused.exit_code, refused.stderr) == (
        2,
        "stoker: error: FROM and TO are the same store\n",
    )


@pytest.mark.parametrize(("old", "new"), [(OLD, "memory:"), ("memory:", NEW), (OLD, "MEMORY://")])
@pytest.mark.parametrize("more", [[], ["--abandon"]])
def test_jobs_do_not_move_into_a_store_that_ends_with_the_command(
    cli: Cli, jobs: Desk, old: str, new: str, more: list[str]
) -> None:
    jobs.intake.enqueue(Job("mail"))
    refused = cli("move", old, new, *more)
    assert refused.exit_code == 2
    assert "memory: is inside one process" in refused.stderr
    assert jobs.dispatch.claim(["mail"])


def test_a_new_store_that_was_lost_is_told_and_the_old_one_opened_again(
    cli: Cli, jobs: Desk, place: Path
) -> None:
    jobs.intake.enqueue(Job("mail"))
    assert cli("move", OLD, NEW).exit_code == 0
    for file in place.glob("new.db*"):
        file.unlink()
    again = cli("move", OLD, NEW)
    assert (again.exit_code, again.stdout) == (1, "")
    assert f"{OLD} has moved to {NEW}, but its jobs are not there (any more)" in again.stderr
    assert cli("move", OLD, NEW, "--abandon").exit_code == 0
    assert jobs.dispatch.claim(["mail"])


def test_there_must_be_a_store_to_move_from(cli: Cli) -> None:
    refused = cli("move", OLD, NEW)
    assert refused.exit_code == 4
    assert refused.stderr == f"stoker: error: there is no store at {OLD} to move from\n"


def test_nothing_can_be_abandoned_that_was_not_begun(cli: Cli, jobs: Desk) -> None:
    refused = cli("move", OLD, NEW, "--abandon")
    assert refused.exit_code == 2
    assert "there is nothing to abandon" in refused.stderr

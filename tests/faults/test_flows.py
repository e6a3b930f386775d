"""A worker is killed in the middle of a chain or group, and another one goes on with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker import State, Stoker, Summary, chain, group, previous
from tests.faults.places import SHARED
from tests.store.sqlite.process import Process

WORKER = """
import time
from stoker import Stoker

app = Stoker(sys.argv[1])

def stay(*_):
    say("here")
    time.sleep(600)

@app.task(name="step")
def step(number: int) -> int:
    if sys.argv[2] == "within a step" and number == 2:
        stay()
    return number + 1

worker = app.worker(ttl=1, chores=False)
if sys.argv[2] == "between two steps":
    app.desk.clerk.resume = stay
worker.start()
time.sleep(600)
"""


@pytest.fixture(params=sorted(SHARED))
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stoker]:
    with SHARED[request.param](tmp_path) as url:
        app = Stoker(url)
        yield app
        app.close()


@pytest.mark.parametrize("moment", ["within a step", "between two steps"])
def test_a_chain_and_a_group_survive_the_kill_of_their_worker(app: Stoker, moment: str) -> None:
    @app.task(name="step")
    def step(number: int) -> int:
        return number + 1

    chained = chain(*[step.call(1 if n == 0 else previous()) for n in range(4)]).enqueue()
    gathered = group([step.call(1), step.call(2)]).enqueue()
    with Process(WORKER, app.url, moment) as doomed:
        assert doomed.hear() == "here"
        doomed.kill()
    assert State.WAITING in (chained.state, gathered.state)
    survivor = app.worker(ttl=1)
    survivor.start()
    try:
        assert chained.wait(timeout="60s") == 5
        assert gathered.wait(timeout="60s") == Summary(finished=2)
    finally:
        survivor.stop()

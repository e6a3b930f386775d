"""`stoker bridge` as an operator starts it, and the example that needs a broker."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import nats

import stoker
from stoker.desk import Desk
from stoker.store.open import open_store
from tests.architecture.tree import ROOT
from tests.bridges.carrying import PATIENCE, answer_of, asking, until
from tests.servers.nats import NatsServer

SOURCE = str(Path(stoker.__file__).parents[1])
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("STOKER")}
ENVIRONMENT = CLEAN | {"PYTHONPATH": SOURCE}


def test_the_command_carries_answers_until_it_is_told_to_stop(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path / 'jobs.db'}?sync=normal"
    desk = Desk(open_store(store))
    job = asking(desk, "4711")
    url = f"{nats_server.url}/shop.answers?key=order"
    command = [sys.executable, "-m", "stoker", "bridge", url, "--store", store]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = ""
        while "connected with" not in said:
            said += process.stderr.readline()
        asyncio.run(answered(nats_server, desk, job))
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert f"{nats_server.url}/shop.answers is closed: 1 delivered" in rest
    desk.store.close()


async def answered(server: NatsServer, desk: Desk, job: int) -> None:
    async with await nats.connect(server.url) as client:
        await client.publish("shop.answers", b'{"order": 4711}')
        async with asyncio.timeout(PATIENCE):
            await until(lambda: answer_of(desk, job))


def test_a_url_that_cannot_be_read_is_told_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "stoker", "bridge", "nats://h", "--store"]
    done = subprocess.run(
        [*command, f"sqlite:///{tmp_path / 'jobs.db'}"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("stoker: error: nats:// needs a subject, as in nats://host:4222/")


def test_hipq_nats_py_tells_its_story(nats_server: NatsServer, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "hipq_nats.py"), nats_server.url],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
    assert run.stdout.splitlines() == [
        "order 4711 is final, error NONE",
        "order 4712 was refused in try 1",
        "order 4712 is final, error ValueError: 1000 coins are too many",
    ]

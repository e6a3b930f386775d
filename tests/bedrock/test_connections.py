"""Connections: good manners, bad manners, and strangers."""

from __future__ import annotations

import random
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.doors.bedrock.protocol import Limits
from stoker.doors.bedrock.server import Settings
from stoker.store.memory import MemoryStore
from tests.bedrock.conftest import Serve
from tests.bedrock.inhouse import opened
from tests.bedrock.wire import Server, Wire, eventually, written

CERTIFICATE = Path(__file__).parent / "localhost.pem"


def beside(wire: Wire) -> Wire:
    """Another connection to the same server."""
    return Wire(wire.socket.getpeername()[1])


# -- good manners --------------------------------------------------------------------------


def test_requests_in_one_packet_are_answered_in_order(wire: Wire) -> None:
    wire.send(
        written("CreateJob", name="one") + "Nope\n\n" + written("GetJob", name="one") + "Ping\n\n"
    )
    statuses = [wire.answer().status for _ in range(4)]
    assert statuses == ["200 OK", "430 Unrecognized command", "200 OK", "200 OK"]


def test_a_request_may_come_letter_by_letter(wire: Wire) -> None:
    for letter in written("CreateJob", name="slow", data={"ü": "木"}).encode():
        wire.send(bytes([letter]))
    assert wire.answer().status == "200 OK"


def test_what_is_sent_and_answered_is_never_mixed_up(wire: Wire, server: Server) -> None:
    others = [server.connect() for _ in range(20)]
    for number, other in enumerate(others):
        other.send(written("CreateJob", name=f"mine {number}", data={"n": number}) * 5)
    for other in others:
        assert {other.answer().status for _ in range(5)} == {"200 OK"}
    for number, other in enumerate(others):
        other.send(written("GetJob", name=f"mine {number}") * 5)
    for number, other in enumerate(others):
        assert [other.answer().json["data"] for _ in range(5)] == [{"n": number}] * 5


@pytest.mark.parametrize("word", ["close", "Close"])
def test_a_client_may_ask_for_the_connection_to_be_closed(wire: Wire, word: str) -> None:
    answer = wire.ask("Ping", Connection=word)
    assert (answer.status, answer.headers["Connection"]) == ("200 OK", "close")
    assert wire.ended()


def test_a_connection_stays_after_errors(wire: Wire) -> None:
    for _ in range(3):
        assert wire.ask("FinishJob", jobID="x").status == "402 Malformed jobID"
    assert wire.ask("Ping").status == "200 OK"


def test_a_client_may_forget_what_it_asked_for(server: Server, wire: Wire) -> None:
    hasty = server.connect()
    answer = hasty.ask("CreateJob", name="forgotten", Connection="forget")
    assert answer.status == "202 Successfully queued"
    assert answer.headers["Connection"] == "close"
    assert hasty.ended()
    found: list[int] = []

    def made() -> bool:
        rows = wire.ask("Query", query="select jobID from jobs where name = 'forgotten';").json
        found[:] = [row[0] for row in rows]
        return bool(found)

    eventually(made)
    assert server.connect().ask("GetJob", name="forgotten", Connection="forget").status[:3] == "202"
    eventually(lambda: wire.ask("QueryJob", jobID=found[0]).json["lastRun"] != "")
    eventually(lambda: wire.ask("QueryJob", jobID=found[0]).json["state"] == "QUEUED")


def test_a_command_may_be_put_off(server: Server, wire: Wire) -> None:
    at = int(time.time() * 1e6) + 200_000
    answer = server.connect().ask("CreateJob", name="put off", commandExecuteTime=at)
    assert answer.status == "202 Successfully queued"
    assert wire.ask("GetJob", name="put off").status == "404 No job found"
    job = wire.ask("GetJob", name="put off", Connection="wait", Timeout=30_000)
    assert job.status == "200 OK"
    assert time.time() * 1e6 >= at
    at_once = wire.ask("CreateJob", name="put off", commandExecuteTime=at)
    assert at_once.status == "200 OK"


def test_a_client_that_stops_speaking_still_gets_its_answers(wire: Wire) -> None:
    wire.send(written("CreateJob", name="half") + "Ping\n\n")
    wire.socket.shutdown(socket.SHUT_WR)
    assert [wire.answer().status for _ in range(2)] == ["200 OK", "200 OK"]
    assert wire.ended()


def test_a_client_that_stops_speaking_gets_its_job_whole_or_not_at_all(
    server: Server, wire: Wire
) -> None:
    job_id = wire.ask("CreateJob", name="mute").json["jobID"]
    mute = server.connect()
    mute.send(written("GetJob", name="mute"))
    mute.socket.shutdown(socket.SHUT_WR)
    status = mute.answer().status
    assert status in ("200 OK", "556 Aborted")
    wanted = "RUNNING" if status == "200 OK" else "QUEUED"
    eventually(lambda: wire.ask("QueryJob", jobID=job_id).json["state"] == wanted)


# -- bad manners ---------------------------------------------------------------------------


def test_a_request_that_is_too_large_is_told_so(server: Server, wire: Wire) -> None:
    for text in ("X\ny: " + "z" * (5 * 2**20), f"X\nContent-Length: {2**40}\n\n"):
        large = server.connect()
        large.send(text)
        answer = large.answer()
        assert (answer.status, answer.headers["Connection"]) == ("413 Request too large", "close")
        assert large.ended()
    assert wire.ask("Ping").status == "200 OK"


def test_a_job_may_be_large(wire: Wire) -> None:
    data = {"blob": "x" * 3_000_000}
    job_id = wire.ask("CreateJob", name="large", data=data).json["jobID"]
    assert wire.ask("GetJob", name="large").json["data"] == data
    assert wire.ask("FinishJob", jobID=job_id).status == "200 OK"


def test_a_length_that_is_no_number_ends_the_connection(wire: Wire) -> None:
    assert wire.say("Ping\nContent-Length: many\n\n").status == "400 Bad request"
    assert wire.ended()


def test_headers_cannot_be_smuggled_into_an_answer(wire: Wire) -> None:
    answer = wire.say("Query\nquery: select \\r\\n\\r\\n200 OK\\r\\nX: y;\n\n")
    assert answer.status == "402 Bad query"
    assert "X" not in answer.headers
    assert wire.ask("Ping").status == "200 OK"


def test_garbage_harms_nobody_else(server: Server, wire: Wire) -> None:
    dice = random.Random(7)
    verbs = [b"CreateJob", b"GetJob", b"CreateJobs", b"RetryJob", b"Query", b"UpdateJob"]
    words = [b"\n", b"\r\n", b": ", b"name", b"jobID", b"data", b"{", b'"', b"\0", b"\xff", b"\\u"]
    for _ in range(60):
        vandal = server.connect()
        pieces = [dice.choice(verbs), *(dice.choice(words) for _ in range(dice.randrange(40)))]
        vandal.send(b"".join(pieces) + b"\n\n" + dice.randbytes(dice.randrange(50)))
        vandal.reset() if dice.random() < 0.5 else vandal.close()
    assert wire.ask("Ping").status == "200 OK"
    assert wire.ask("CreateJob", name="after").status == "200 OK"


def test_whoever_sends_without_reading_gets_all_answers_in_the_end(wire: Wire) -> None:
    count = 20_000
    sender = threading.Thread(target=wire.send, args=("Ping\n\n" * count,))
    sender.start()
    assert {wire.answer().status for _ in range(count)} == {"200 OK"}
    sender.join()


def test_a_pile_of_requests_behind_one_that_waits_is_answered_after_it() -> None:
    with opened(Desk(MemoryStore()), Settings(limits=Limits(head=1000))) as wires:
        wires += [beside(wires[0])]
        wires[0].send(written("GetJob", name="foo", Connection="wait", Timeout=30_000))
        wires[0].send("Ping\n\n" * 5000 + "Sta")
        eventually(lambda: wires[1].ask("Status").json["waiting"] == 1)
        wires[1].ask("CreateJob", name="foo")
        assert wires[0].answer().json["name"] == "foo"
        assert {wires[0].answer().status for _ in range(5000)} == {"200 OK"}
        wires[0].send("tus\n\n")
        assert wires[0].answer().json["state"] == "LEADING"


def test_a_slow_reader_is_left_and_its_job_goes_back() -> None:
    with opened(Desk(MemoryStore()), Settings(request_seconds=0.2)) as wires:
        data = {"blob": "x" * 3_000_000}
        ids = [wires[0].ask("CreateJob", name="big", data=data).json["jobID"] for _ in range(4)]
        slow = beside(wires[0])
        wires.append(slow)
        slow.send(written("GetJobs", name="big", numResults=4))
        assert slow.socket.recv(3) == b"200"
        eventually(
            lambda: {wires[0].ask("QueryJob", jobID=i).json["state"] for i in ids} == {"QUEUED"}
        )


def test_a_slow_sender_is_sent_away_and_an_idle_one_is_not() -> None:
    with opened(Desk(MemoryStore()), Settings(request_seconds=0.1)) as wires:
        slow = beside(wires[0])
        wires.append(slow)
        slow.send("GetJob\nname: f")
        assert slow.answer().status == "408 Request not finished in time"
        assert slow.ended()
        assert wires[0].ask("Ping").status == "200 OK"


def test_unfinished_requests_may_take_so_much_memory_together() -> None:
    settings = Settings(limits=Limits(head=10_000), buffered=15_000)
    with opened(Desk(MemoryStore()), settings) as wires:
        wires += [beside(wires[0]) for _ in range(2)]
        for wire in wires[1:]:
            wire.send("X\ny: " + "z" * 9_000)
        refused = 0
        for wire in wires[1:]:
            wire.socket.settimeout(0.5)
            try:
                assert wire.answer().status == "503 Too busy, try again later"
                refused += 1
            except TimeoutError:
                wire.socket.settimeout(30)
                wire.send("\n\n")
                assert wire.answer().status == "430 Unrecognized command"
        assert refused == 1
        assert wires[0].ask("Ping").status == "200 OK"


def test_there_may_be_so_many_connections() -> None:
    with opened(Desk(MemoryStore()), Settings(connections=3)) as wires:
        wires += [beside(wires[0]) for _ in range(3)]
        assert [wire.ask("Ping").status for wire in wires[:3]] == ["200 OK"] * 3
        assert wires[3].answer().status == "503 Too busy, try again later"
        assert wires[3].ended()
        wires[2].close()
        eventually(lambda: _is_let_in(wires))


def _is_let_in(wires: list[Wire]) -> bool:
    wires.append(beside(wires[0]))
    return wires[-1].ask("Ping").status == "200 OK"


def test_hundreds_of_connections_are_no_trouble(server: Server) -> None:
    crowd = [server.connect() for _ in range(400)]
    for number, wire in enumerate(crowd):
        wire.send(written("CreateJob", name=f"crowd {number % 7}"))
    ids = {wire.answer().json["jobID"] for wire in crowd}
    assert len(ids) == 400
    server.hang_up()


def test_what_is_forgotten_is_counted_too() -> None:
    with opened(Desk(MemoryStore()), Settings(buffered=4000)) as wires:
        later = int((time.time() + 3600) * 1e6)
        answers = []
        for _ in range(5):
            wires.append(beside(wires[0]))
            answers.append(wires[-1].ask("CreateJob", name="x", commandExecuteTime=later).status)
        assert answers[0] == "202 Successfully queued"
        assert answers[-1] == "503 Too busy, try again later"
        assert wires[0].ask("Ping").status == "200 OK"


def test_a_store_in_trouble_is_told_of_and_the_door_goes_on() -> None:
    class Broken(MemoryStore):
        broken = False

        def transact(self, changes, claims=()):  # type: ignore[no-untyped-def]
            if self.broken:
                raise RuntimeError("on fire")
            return super().transact(changes, claims)

    store = Broken()
    with opened(Desk(store), Settings()) as wires:
        store.broken = True
        for verb in ("CreateJob", "GetJob"):
            answer = wires[0].ask(verb, name="foo")
            assert answer.status == "500 Internal Server Error"
            assert answer.headers["error"] == "unexpected RuntimeError"
        store.broken = False
        assert wires[0].ask("CreateJob", name="foo").status == "200 OK"


# -- strangers -----------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["option", "environment"])
def test_a_token_is_asked_for_once_a_connection(serve: Serve, by: str) -> None:
    options = ("--bedrock-token", "open sesame") if by == "option" else ()
    server = serve(*options, env={"STOKER_BEDROCK_TOKEN": "open sesame"})
    wire = server.connect()
    for headers in ({}, {"authToken": "sesame"}, {"authToken": ""}, {"authToken": "öpen"}):
        assert wire.ask("Ping", **headers).status == "401 Unauthorized"
        assert wire.ask("CreateJob", name="x", **headers).status == "401 Unauthorized"
    assert wire.ask("GetJob", name="x", AUTHTOKEN="open sesame").status == "404 No job found"
    assert wire.ask("Ping").status == "200 OK"
    assert server.connect().ask("Ping").status == "401 Unauthorized"


def test_tls(serve: Serve) -> None:
    server = serve("--tls-cert", str(CERTIFICATE))
    trusting = ssl.create_default_context(cafile=CERTIFICATE)
    wire, waiting = server.connect(trusting), server.connect(trusting)
    waiting.send(written("GetJob", name="secret", Connection="wait", Timeout=30_000))
    assert wire.ask("CreateJob", name="secret", data={"x": 1}).status == "200 OK"
    assert waiting.answer().json["data"] == {"x": 1}
    plain = server.connect()
    plain.send("Ping\n\n")
    assert plain.ended()
    assert wire.ask("Ping", Connection="close").status == "200 OK"
    assert "SSL" not in server.stop()

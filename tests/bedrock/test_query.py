"""Query: SQL that can only look, and only so far."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.doors.bedrock.commands import Circumstances, intent_of
from stoker.doors.bedrock.protocol import Reply, Request
from stoker.doors.bedrock.query import Limits, ask
from stoker.doors.bedrock.refusals import Refusal
from stoker.kernel.job import Job
from stoker.store.memory import MemoryStore
from tests.bedrock.teller import Teller
from tests.engines import VirtualClock

NOW = "2023-11-14 22:13:20"


@pytest.fixture
def here(clock: VirtualClock) -> Teller:
    """In memory alone."""
    desk = Desk(MemoryStore(clock), token=itertools.count(1).__next__)
    teller = Teller(desk)
    for number in range(3):
        teller.create(f"foo {number}", data={"n": number})
    return teller


def rows(teller: Teller, sql: str) -> object:
    return teller.ok("Query", query=sql)


def test_all_jobs_of_the_door_in_the_columns_of_old(teller: Teller) -> None:
    teller.desk.intake.enqueue(Job("mail", "of another door"))
    teller.create("foo", data={"value": 1}, repeat="finished, +1 minute")
    teller.get("foo")
    teller.create("bar", jobPriority=1000, firstRun="2042-01-01", mockRequest="1")
    assert rows(teller, "select * from jobs;") == [
        [NOW, 2, "RUNNING", "foo", f"{NOW}.000", NOW, "FINISHED, +1 MINUTE", {"value": 1}],
        [NOW, 3, "QUEUED", "bar", "2042-01-01 00:00:00", "", "", {"mockRequest": True}],
    ]


def test_other_columns_are_there_for_whoever_names_them(teller: Teller) -> None:
    parent = teller.begun("parent", jobTimeout=5000)
    child = teller.create("child", parentJobID=parent, retryAfter="+1 HOUR", jobPriority=1000)
    names = "priority, parentJobID, retryAfter, timeout, expires, attempt"
    assert rows(teller, f"select {names} from jobs order by jobID;") == [  # noqa: S608
        [500, 0, "", 5000, "2023-11-14 22:13:25.000", 1],
        [1000, parent, "+1 HOUR", None, None, 0],
    ]
    sql = f"select rowid, state from jobs where jobID = {child};"  # noqa: S608
    assert rows(teller, sql) == [[child, "PAUSED"]]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select count(*) from jobs;", [[3]]),
        ("select name from jobs where jobID = 2;", [["foo 1"]]),
        ("select name from jobs where jobID = '2';", [["foo 1"]]),
        ("select name from jobs where jobID in (1, 3, 99);", [["foo 0"], ["foo 2"]]),
        ("select jobID from jobs where name glob '*[12]' order by 1 desc;", [[3], [2]]),
        ("select sum(data ->> 'n') from jobs;", [[3]]),
        ("select a.jobID from jobs a join jobs b on a.jobID = b.jobID + 2;", [[3]]),
        ("select 1.5, null, 'x', x'ff', '{\"a\":1}';", [[1.5, None, "x", "\ufffd", {"a": 1}]]),
        (
            "with t(n) as (values (1) union all select n+1 from t limit 2) select n from t;",
            [[1], [2]],
        ),
        ("select value from json_each('[5]');", [[5]]),
        ("values (1), (2);", [[1], [2]]),
        ("select * from jobs where 0;", []),
    ],
)
def test_whatever_a_select_can_say(here: Teller, sql: str, found: object) -> None:
    assert rows(here, sql) == found


def test_the_answer_may_have_other_forms(here: Teller) -> None:
    sql = "select jobID, data from jobs limit 1;"
    form = here.ok("Query", query=sql, format="JSON")
    assert form == {"headers": ["jobID", "data"], "rows": [[1, {"n": 0}]]}
    flags = here.ok("Query", query=sql, ReadDBFlags="-json")
    assert flags == [{"jobID": 1, "data": {"n": 0}}]
    assert here.say("Query: select 7;\n\n").json == [[7]]


@pytest.mark.parametrize(
    ("sql", "status"),
    [
        ("", "402 Missing query"),
        ("select 1", "502 Query Missing Semicolon"),
        ("selec 1;", "402 Bad query"),
        (";", "402 Bad query"),
        ("select \0;", "402 Bad query"),
        ("select \ud800;", "402 Bad query"),
        ("select * from job;", "402 Bad query"),
    ],
)
def test_what_is_no_question(here: Teller, sql: str, status: str) -> None:
    reply = ask(here.desk, Request("query", "", {"query": sql}))
    assert reply.status == status
    if status == "402 Bad query":
        assert reply.headers["error"].encode() == reply.body != b""


@pytest.mark.parametrize(
    "sql",
    [
        "delete from jobs;",
        "update jobs set name = 'x' where jobID = 1;",
        "insert into jobs(name) values ('x');",
        "drop table jobs;",
        "create table t(x);",
        "create temp table t(x);",
        "create view v as select 1;",
        "attach ':memory:' as other;",
        "detach temp;",
        "pragma table_list;",
        "pragma writable_schema = on;",
        "select * from pragma_table_list;",
        "select * from sqlite_schema;",
        "select * from temp.sqlite_temp_schema;",
        "select load_extension('x');",
        "vacuum;",
        "vacuum into 'x.db';",
        "begin;",
        "savepoint x;",
        "reindex;",
        "analyze;",
        "explain select 1;",
        "explain query plan select 1;",
        "select 1; select 2;",
        "select 1; delete from jobs;",
        "with x as (select 1) delete from jobs;",
        "select * from jobs; -- x\n drop table jobs;",
    ],
)
def test_nothing_but_one_select_gets_through(
    here: Teller, sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = here.desk.store.get([1, 2, 3])
    assert ask(here.desk, Request("query", "", {"query": sql})).status == "402 Bad query"
    assert here.desk.store.get([1, 2, 3]) == before
    assert list(tmp_path.iterdir()) == []
    assert rows(here, "select count(*) from jobs;") == [[3]]


ENDLESS = "with recursive t(n) as (values (1) union all select n + 1 from t) select {} from t{};"


def bounded(desk: Desk, sql: str, limits: Limits) -> Reply:
    return ask(desk, Request("query", "", {"query": sql}), limits)


@pytest.mark.parametrize(
    ("sql", "limits", "said"),
    [
        (ENDLESS.format("count(*)", ""), Limits(seconds=0.05), "it takes more than 0.05"),
        (
            ENDLESS.format("hex(randomblob(9000))", " order by 1"),
            Limits(memory=4 * 2**20, seconds=60.0),
            "it takes more than 60 seconds or 4 mib",
        ),
        (ENDLESS.format("n", ""), Limits(rows=100), "more than 100 rows"),
        (
            ENDLESS.format("zeroblob(5000)", ""),
            Limits(row_bytes=100_000),
            "more than 10,000 rows",
        ),
        ("select hex(zeroblob(100000));", Limits(value_bytes=1000), "string or blob too big"),
        ("select * from jobs;", Limits(jobs=2), "too many jobs"),
        ("select * from jobs;", Limits(job_bytes=10), "too many jobs"),
        ("select " + "(" * 3000 + "1" + ")" * 3000 + ";", Limits(), "recursion"),
        ("select 1" + " union all select 1" * 100 + ";", Limits(), "too many terms"),
        ("select '" + "x" * 200_000 + "';", Limits(), "too big"),
    ],
)
def test_a_question_may_cost_so_much(here: Teller, sql: str, limits: Limits, said: str) -> None:
    reply = bounded(here.desk, sql, limits)
    assert reply.status == "402 Bad query"
    assert said in reply.body.decode().lower()


def test_one_job_can_be_asked_for_where_there_are_too_many(here: Teller) -> None:
    sql = "select name from jobs where jobID = 3;"
    assert bounded(here.desk, sql, Limits(jobs=1)).body == b'[["foo 2"]]'


def test_the_operator_has_to_switch_it_on(here: Teller) -> None:
    around = Circumstances(here.desk, 10, None)
    with pytest.raises(Refusal, match="401 Unauthorized"):
        intent_of(around, Request("query", "", {"query": "select 1;"}))

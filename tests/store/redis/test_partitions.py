"""Several partitions: jobs spread over them, and what is decided in one place stays exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from stoker import Stoker
from stoker.desk import Desk, Twin
from stoker.errors import BadInput, Refused, StoreMoved
from stoker.kernel.change import Change
from stoker.kernel.job import Job, State, partition_of, place
from stoker.kernel.outcome import Awaits, Finished
from stoker.kernel.policy import Policy
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.store import Adrift, Filter, Forgettable, InLine, Lost
from stoker.store.redis import RedisStore
from stoker.store.redis.wire import Wire
from stoker.store.seal import UNSEALED, Seal, sealed
from stoker.watch import run_chores
from tests.engines import SECOND, VirtualClock
from tests.servers.valkey import Server
from tests.store.conformance.acts import BROKEN, put, take

PARTITIONS = 4


@pytest.fixture
def store(server: Server, prefix: str, clock: VirtualClock) -> Iterator[RedisStore]:
    store = RedisStore(server.url(prefix, partitions=PARTITIONS), clock=clock)
    yield store
    store.close()


@pytest.fixture
def desk(store: RedisStore) -> Desk:
    return Desk(store)


def homes(ids: list[int]) -> Counter[int]:
    return Counter(map(partition_of, ids))


# -- spreading -----------------------------------------------------------------------------


def test_jobs_are_spread_evenly(desk: Desk) -> None:
    assert homes([put(desk) for _ in range(40)]) == Counter(dict.fromkeys(range(PARTITIONS), 10))


def test_jobs_of_one_call_live_together(desk: Desk) -> None:
    placed = desk.intake.enqueue_many([Job("q")] * 50)
    assert len(homes([each.id for each in placed])) == 1


def test_partitions_are_claimed_from_in_turn(desk: Desk, clock: VirtualClock) -> None:
    for _ in range(40):
        put(desk)
    first = []
    for _ in range(PARTITIONS):
        clock.now += SECOND
        first.append(take(desk).id)
    assert len(homes(first)) == PARTITIONS


def test_whoever_comes_again_at_once_claims_where_it_did(desk: Desk, clock: VirtualClock) -> None:
    for _ in range(40):
        put(desk)
    clock.now += 10 * SECOND
    assert len(homes([take(desk).id for _ in range(5)])) == 1
    clock.now -= SECOND  # a clock that is put back keeps nobody where he is
    assert len(homes([take(desk).id for _ in range(5)])) == 1
    assert {view.counts[State.QUEUED] for view in desk.store.survey()} == {30}


def test_reporting_and_claiming_where_one_is_takes_one_call(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(40):
        put(desk)
    held, request = [take(desk) for _ in range(3)], desk.dispatch.request(["q"], 1)
    calls, tell = [], Wire.tell

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return tell(*args, **options)

    monkeypatch.setattr(Wire, "tell", counted)
    _, grants = desk.report.many([(job, Finished()) for job in held], [request])
    assert [len(grant or ()) for grant in grants] == [1]
    assert len(calls) == 1


def test_one_claim_goes_on_from_partition_to_partition(desk: Desk) -> None:
    ids = {put(desk) for _ in range(10)}
    assert {job.id for job in desk.dispatch.claim(["q"], 10)} == ids
    assert desk.dispatch.claim(["q"], 10) == []


def test_order_is_kept_within_a_partition(desk: Desk) -> None:
    ids = [put(desk, rank=-number) for number in range(24)]
    jobs = desk.dispatch.claim(["q"], 24)
    for partition in range(PARTITIONS):
        here = [job.id for job in jobs if partition_of(job.id) == partition]
        assert here == [i for i in reversed(ids) if partition_of(i) == partition]


def test_whoever_hears_a_ring_looks_where_it_came_from(store: RedisStore, desk: Desk) -> None:
    ear = store.bell.listen()
    for _ in range(PARTITIONS * 2):
        job_id = put(desk)
        assert ear.wait(10) == {"q"}
        assert store._jobs._round().__next__() == partition_of(job_id)  # type: ignore[union-attr]
    ear.close()


def test_reports_about_jobs_of_many_partitions_are_one_step_for_the_worker(desk: Desk) -> None:
    for _ in range(12):
        put(desk)
    session = desk.dispatch.open_session(ttl=60 * SECOND)
    jobs = desk.dispatch.claim(["q"], 12, session=session)
    results, _ = desk.report.many([(job, Finished(b"1")) for job in jobs])
    assert results == [None] * 12
    assert desk.store.survey(["q"])[0].counts[State.FINISHED] == 12


# -- looking -------------------------------------------------------------------------------


@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_go_through_all_partitions(desk: Desk, newest_first: bool) -> None:
    ids = sorted([put(desk) for _ in range(10)], reverse=newest_first)
    seen: list[int] = []
    after = None
    while page := desk.store.find(Filter(after=after, newest_first=newest_first, limit=3)):
        seen += [job.id for job in page]
        after = seen[-1]
    assert seen == ids


def test_a_survey_counts_all_partitions(desk: Desk) -> None:
    for _ in range(10):
        put(desk)
    jobs = desk.dispatch.claim(["q"], 3)
    (view,) = desk.store.survey()
    assert (view.counts[State.QUEUED], view.counts[State.RUNNING], view.used) == (7, 3, 3000)
    assert desk.store.names("*") == ["q"]
    assert set(desk.store.get([job.id for job in jobs])) == {job.id for job in jobs}


def test_the_next_due_moment_is_the_earliest_of_all(desk: Desk, clock: VirtualClock) -> None:
    for number in range(8):
        put(desk, due_at=clock.now + SECOND * (number + 1))
    assert desk.store.next_due(["q"]) == clock.now + SECOND


def test_the_watch_looks_everywhere(desk: Desk, clock: VirtualClock) -> None:
    ids = [put(desk) for _ in range(8)]
    for job in desk.dispatch.claim(["q"], 8, visibility=SECOND):
        desk.intake.spawn(job, [Job("child")])
    clock.pass_(2)
    assert [job.id for job in desk.store.find(Lost())] == sorted(ids)
    run_chores(desk.clerk, "me")
    for job in desk.dispatch.claim(["q"], 8):
        desk.report.fail(job, BROKEN)
    assert desk.store.find(Adrift()) == []
    clock.pass_(40 * 24 * 3600)
    assert len(desk.store.find(Forgettable(limit=100))) == 16
    run_chores(desk.clerk, "me")
    assert desk.store.find(Filter()) == []


# -- names, families, sessions -------------------------------------------------------------


def test_twins_are_found_wherever_they_are(desk: Desk) -> None:
    ids = [put(desk, unique_key=f"u{n}", due_at=1) for n in range(12)]
    again = [
        desk.intake.enqueue(Job("q", unique_key=f"u{n}"), twin=Twin.RETURN).id for n in range(12)
    ]
    assert again == ids
    assert len(homes(ids)) > 1
    refs = [put(desk, ref=f"r{n}") for n in range(12)]
    assert [desk.store.find(Filter(ref=f"r{n}"))[0].id for n in range(12)] == refs


def test_names_that_live_apart_are_refused_for_one_job(desk: Desk) -> None:
    apart = next(n for n in range(100) if home_of(desk, "ref", f"r{n}") != 0)
    here = next(n for n in range(100) if home_of(desk, "unique", f"u{n}") == 0)
    with pytest.raises(BadInput, match=r"cannot live in one partition.*leave one of these out"):
        put(desk, unique_key=f"u{here}", ref=f"r{apart}")
    with pytest.raises(BadInput, match="several partitions cannot be taken in"):
        desk.intake.enqueue_many([Job("q", unique_key=f"u{here}"), Job("q", ref=f"r{apart}")])
    assert desk.store.find(Filter()) == []


def home_of(desk: Desk, kind: str, text: str) -> int:
    return desk.store._jobs._homes.of_name((kind, text))  # type: ignore[attr-defined, no-any-return]


def test_children_live_with_their_parents(desk: Desk) -> None:
    for _ in range(PARTITIONS):
        put(desk)
    for parent in desk.dispatch.claim(["q"], PARTITIONS):
        (child,) = desk.intake.spawn(parent, [Job("child")])
        assert partition_of(child) == partition_of(parent.id)
        desk.report.finish(desk.store.get([parent.id])[parent.id])
        desk.report.finish(take(desk, "child"))
        assert desk.store.get([parent.id])[parent.id].state is State.QUEUED


def test_runs_of_a_schedule_live_with_it(desk: Desk, clock: VirtualClock) -> None:
    schedule = put(desk, policy=Policy(repeat="every 10s; overlap=allow"), unique_key="hourly")
    clock.pass_(10)
    run_chores(desk.clerk, "me")
    (run,) = desk.store.find(Filter(states=(State.QUEUED,)))
    assert partition_of(run.id) == partition_of(schedule)


def test_schedules_can_be_paused_wherever_they_live(desk: Desk) -> None:
    names = [f"s{n}" for n in range(8)]
    ids = [put(desk, policy=Policy(repeat="every 1h"), unique_key=name) for name in names]
    assert len(homes(ids)) > 1
    for name in names:
        desk.schedules.pause(name)
    assert sorted(desk.schedules.paused()) == names
    for name in names:
        desk.schedules.resume(name)
    assert desk.schedules.paused() == {}
    assert [schedule.name for schedule in desk.schedules.all()] == names


def test_a_session_lives_in_all_partitions_or_in_none(desk: Desk, clock: VirtualClock) -> None:
    session = desk.dispatch.open_session("w", ttl=10 * SECOND)
    for _ in range(PARTITIONS):
        put(desk)
    jobs = desk.dispatch.claim(["q"], PARTITIONS, session=session)
    for job in jobs:
        desk.control.cancel(job.id)
    assert desk.dispatch.beat(session, ttl=10 * SECOND).cancelled == tuple(
        sorted(job.id for job in jobs)
    )
    desk.store._parts[2].retire(session)  # type: ignore[attr-defined]
    assert not desk.dispatch.beat(session, ttl=10 * SECOND).alive
    assert len(desk.store.find(Lost())) == PARTITIONS


def test_replies_reach_jobs_in_any_partition(desk: Desk) -> None:
    for number in range(8):
        put(desk, name=str(number))
    for job in desk.dispatch.claim(["q"], 8):
        if int(job.name) % 2:
            desk.control.reply(job.name, b"early")
            assert desk.report.wait(job, Awaits(job.name)).reply == b"early"
        else:
            desk.report.wait(job, Awaits(job.name))
            assert desk.control.reply(job.name, b"late").value == "delivered"
    queued = desk.store.find(Filter(states=(State.QUEUED,)))
    assert {(int(job.name) % 2, job.reply) for job in queued} == {(1, b"early"), (0, b"late")}
    assert desk.store.notes([f"reply:{number}" for number in range(8)]) == {}


# -- limits --------------------------------------------------------------------------------


def test_jobs_of_a_limited_queue_live_together_and_the_limit_holds(desk: Desk) -> None:
    desk.control.configure("narrow", QueueSettings(capacity=2))
    ids = [put(desk, "narrow") for _ in range(12)]
    assert len(homes(ids)) == 1
    assert len(desk.dispatch.claim(["narrow"], 12)) == 2
    assert desk.dispatch.claim(["narrow"], 12) == []


def test_a_queue_whose_jobs_are_spread_cannot_be_limited(desk: Desk) -> None:
    for _ in range(8):
        put(desk)
    with pytest.raises(Refused, match=r"has jobs in several partitions.* let it run dry first"):
        desk.control.configure("q", QueueSettings(capacity=2))
    assert desk.store.survey(["q"])[0].settings == QueueSettings()
    for job in desk.dispatch.claim(["q"], 8):
        desk.report.finish(job)
    desk.control.configure("q", QueueSettings(capacity=2))
    ids = [put(desk) for _ in range(8)]
    assert len(homes(ids)) == 1


def test_producers_who_have_not_heard_of_a_limit_are_shown_the_way(
    desk: Desk, server: Server, store: RedisStore, clock: VirtualClock
) -> None:
    other = Desk(RedisStore(server.url(store.options.prefix, partitions=PARTITIONS), clock=clock))
    put(other)
    other.report.finish(take(other))
    desk.control.configure("q", QueueSettings(capacity=1))
    ids = [put(other) for _ in range(8)]
    assert homes(ids) == {store._jobs._homes.of_queue("q"): 8}  # type: ignore[union-attr]
    other.store.close()


def test_a_job_from_elsewhere_cannot_join_a_limited_queue(desk: Desk) -> None:
    ended = [put(desk) for _ in range(PARTITIONS)]
    for job in desk.dispatch.claim(["q"], PARTITIONS):
        desk.report.finish(job)
    desk.control.configure("q", QueueSettings(capacity=1))
    home = desk.store._jobs._homes.of_queue("q")  # type: ignore[attr-defined]
    for job_id in ended:
        if partition_of(job_id) == home:
            desk.control.revive(job_id)
        else:
            with pytest.raises(Refused, match="its jobs live in another partition"):
                desk.control.revive(job_id)
    assert desk.store.survey(["q"])[0].counts[State.QUEUED] == 1


def test_a_limited_queue_and_a_name_can_disagree(desk: Desk) -> None:
    desk.control.configure("narrow", QueueSettings(capacity=2))
    queue = desk.store._jobs._homes.of_queue("narrow")  # type: ignore[attr-defined]
    name = next(f"u{n}" for n in range(100) if home_of(desk, "unique", f"u{n}") != queue)
    with pytest.raises(BadInput, match="the limited queue 'narrow' lives in partition"):
        put(desk, "narrow", unique_key=name)


@pytest.mark.parametrize(
    "settings",
    [
        QueueSettings(tasks={"t": 2}),
        QueueSettings(rate=parse_rate("2 per minute")),
        QueueSettings(fair=True),
        QueueSettings(ageing=SECOND),
    ],
    ids=["tasks", "rate", "fair", "ageing"],
)
def test_jobs_that_have_to_be_walked_with_care_live_together(
    desk: Desk, settings: QueueSettings
) -> None:
    desk.control.configure("narrow", settings)
    ids = [put(desk, "narrow", name="t", key=str(n)) for n in range(8)]
    assert len(homes(ids)) == 1
    assert len(desk.dispatch.claim(["narrow"], 12)) == (
        8 if settings.fair or settings.ageing else 2
    )


def test_queues_within_another_live_with_it_and_share_its_limits(desk: Desk) -> None:
    inner = [f"inner{n}" for n in range(6)]
    desk.control.configure("outer", QueueSettings(capacity=3, rate=parse_rate("4 per minute")))
    for name in inner:
        desk.control.configure(name, QueueSettings(within="outer"))
    ids = [put(desk, name) for name in ("outer", *inner)]
    assert homes(ids) == {desk.store._jobs._homes.of_queue("outer"): 7}  # type: ignore[attr-defined]
    jobs = desk.dispatch.claim([*inner, "outer"], 12)
    assert [job.id for job in jobs] == ids[:3]
    for job in jobs:
        desk.report.finish(job)
    assert len(desk.dispatch.claim([*inner, "outer"], 12)) == 1
    assert list(desk.store.flows("outer", ["", "=k"])) == [""]


def test_producers_who_have_not_heard_that_a_queue_moved_within_another_are_shown_the_way(
    desk: Desk, server: Server, store: RedisStore, clock: VirtualClock
) -> None:
    other = Desk(RedisStore(server.url(store.options.prefix, partitions=PARTITIONS), clock=clock))
    put(other)
    other.report.finish(take(other))
    desk.control.configure("q", QueueSettings(within="outer"))
    ids = [put(other) for _ in range(8)]
    assert homes(ids) == {store._jobs._homes.of_queue("outer"): 8}  # type: ignore[union-attr]
    other.store.close()


def test_a_queue_with_jobs_elsewhere_cannot_move_within_another(desk: Desk) -> None:
    desk.control.configure("q", QueueSettings(capacity=1))
    here = desk.store._jobs._homes.of_queue("q")  # type: ignore[attr-defined]
    outer = next(f"o{n}" for n in range(100) if home_of_queue(desk, f"o{n}") != here)
    put(desk)
    with pytest.raises(Refused, match="in another one than its limit is kept in"):
        desk.control.configure("q", QueueSettings(within=outer))
    assert desk.store.survey(["q"])[0].settings == QueueSettings(capacity=1)
    assert partition_of(put(desk)) == here


def home_of_queue(desk: Desk, queue: str) -> int:
    return desk.store._jobs._homes.of_queue(queue)  # type: ignore[attr-defined, no-any-return]


def test_settings_hold_in_all_partitions(desk: Desk) -> None:
    for _ in range(8):
        put(desk)
    desk.control.configure("q", QueueSettings(paused=True))
    assert desk.dispatch.claim(["q"], 8) == []
    desk.control.configure("q", QueueSettings())
    assert len(desk.dispatch.claim(["q"], 8)) == 8
    with pytest.raises(BadInput, match="a Change of their own"):
        desk.store.transact([Change(inserts=(Job("q"),), queues=(("q", QueueSettings()),))])


def test_a_seal_holds_in_all_partitions(desk: Desk) -> None:
    desk.store.transact([sealed(Seal("moving"))])
    for _ in range(PARTITIONS):
        with pytest.raises(StoreMoved, match="moving"):
            put(desk)
    desk.store.transact([UNSEALED])
    assert len(homes([put(desk) for _ in range(PARTITIONS)])) == PARTITIONS


def test_jobs_that_move_in_keep_their_partitions(desk: Desk) -> None:
    there = [Job("q", id=(n << 44) + 7, due_at=1) for n in range(PARTITIONS)]
    desk.store.adopt(there)
    assert desk.store.find(Filter()) == there
    with pytest.raises(BadInput, match="belongs to partition 9"):
        desk.store.adopt([Job("q", id=(9 << 44) + 1)])


# -- the whole -----------------------------------------------------------------------------


def test_a_worker_drains_all_partitions(server: Server, prefix: str) -> None:
    app = Stoker(server.url(prefix, partitions=PARTITIONS))
    done: list[int] = []
    task = app.task(name="note")(done.append)
    jobs = [task.enqueue(number) for number in range(100)]
    worker = app.worker(concurrency=4)
    worker.start()
    try:
        for job in jobs:
            job.wait(timeout="30s")
    finally:
        worker.stop()
        app.close()
    assert sorted(done) == [*range(100)]


def test_due_jobs_are_found_in_order_over_all_partitions(desk: Desk, store: RedisStore) -> None:
    now = store.now()
    ids = [put(desk, rank=rank, due_at=now) for rank in (2, 1, 1, 0, 1, 1, 2, 1)]
    assert len(homes(ids)) == PARTITIONS
    jobs = sorted(store.get(ids).values(), key=place)
    found = store.find(InLine("q", limit=3))
    while page := store.find(InLine("q", place(found[-1]), 3)):
        found += page
    assert found == jobs

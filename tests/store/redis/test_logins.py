"""Logins of groups: one for the servers of the jobs, and another for the Sentinels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from stoker.errors import StoreUnavailable
from stoker.store.redis import RedisStore
from tests.servers.valkey import Server
from tests.servers.valkey_groups import Watched, default_cluster
from tests.store.redis.test_opening import LOCK, PAGE, PERMISSIONS, use

WORKER = ["worker", "on", ">pass", *PERMISSIONS.split()]
GUARD = ["guard", "on", ">watch", "+sentinel|get-master-addr-by-name"]
BOTH = {"sentinel_username": "guard", "sentinel_password": "watch"}

Url = Callable[..., str]


@contextmanager
def locked(servers: Sequence[Server], *user: str) -> Iterator[None]:
    """Nobody gets in any more but this user. Whoever is in stays: replicas, Sentinels."""
    for server in servers:
        with server.client() as client:
            client.execute_command("ACL", "SETUSER", *user)
            client.execute_command("ACL", "SETUSER", "default", "resetpass", f">{LOCK}")
    try:
        yield
    finally:
        for server in servers:
            with server.client(password=LOCK) as client:
                client.execute_command("ACL", "SETUSER", "default", "nopass")


def by(login: str, url: str) -> str:
    return url.replace("://", f"://{login}@")


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    group = Watched()
    with locked((group.primary, *group.replicas), *WORKER), locked(group.sentinels, *GUARD):
        yield group
    group.remove()


def test_servers_and_sentinels_have_logins_of_their_own(watched: Watched) -> None:
    use(by("worker:pass", watched.url("jobs", **BOTH)))


def test_a_password_alone_is_that_of_the_default_user(watched: Watched) -> None:
    use(by(f":{LOCK}", watched.url("jobs2", sentinel_password=LOCK)))


def test_a_login_that_only_the_servers_know_is_no_login_at_the_sentinels(watched: Watched) -> None:
    refused = r"refused the login \(Sentinel .* sentinel_username and sentinel_password"
    for wishes in ({}, {**BOTH, "sentinel_password": "pass"}, {"sentinel_username": "guard"}):
        with pytest.raises(StoreUnavailable, match=refused):
            RedisStore(by("worker:pass", watched.url("jobs", **wishes)))


def test_a_login_that_only_the_sentinels_know_is_no_login_at_the_servers(watched: Watched) -> None:
    with pytest.raises(StoreUnavailable, match="check user and password in the URL") as refused:
        RedisStore(by("guard:watch", watched.url("jobs", **BOTH)))
    assert "Sentinel" not in str(refused.value)


def test_the_page_tells_what_the_user_at_the_sentinels_may() -> None:
    assert f"ACL SETUSER {' '.join(GUARD)}".replace("watch", "password") in PAGE


def test_one_login_opens_all_servers_of_a_cluster() -> None:
    cluster = default_cluster()
    url = cluster.url("jobs", partitions=3)
    with locked(cluster.servers, *WORKER, "+cluster|slots"):
        use(by("worker:pass", url))
        for login in ("worker:wrong", "worker"):
            with pytest.raises(StoreUnavailable, match="refused the login"):
                RedisStore(by(login, url))
    with pytest.raises(StoreUnavailable, match="refused the login"):
        RedisStore(by("nobody:pass", url))

"""Reading URLs, and telling people what is wrong with them."""

from __future__ import annotations

import pytest

from stoker.errors import BadInput
from stoker.store.redis.options import Ack, Options, Tls, read_options
from stoker.store.redis.topology import Address

LOCAL = (Address("localhost", 6379),)
SOCKET = (Address("/run/redis.sock"),)
WORD = "secret"


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("redis://", Options("", LOCAL)),
        ("redis://db:7000/3", Options("", (Address("db", 7000),), database=3)),
        ("redis://[::1]:7000", Options("", (Address("::1", 7000),))),
        ("redis://[::1]", Options("", (Address("::1", 6379),))),
        ("redis://:secret@localhost", Options("", LOCAL, password=WORD)),
        (
            "redis://ann:s%40secret@localhost?prefix=a:b&partitions=8&unsafe=1&patience=0.5",
            Options(
                "",
                LOCAL,
                username="ann",
                password="s@" + WORD,
                prefix="a:b",
                partitions=8,
                unsafe=True,
                patience=0.5,
            ),
        ),
        ("redis://?ack=fsync+replica", Options("", LOCAL, ack=Ack.FSYNC_REPLICA)),
        ("redis://?ack=fsync%2Breplica", Options("", LOCAL, ack=Ack.FSYNC_REPLICA)),
        (
            "unix:///run/redis.sock?database=2",
            Options("", SOCKET, database=2),
        ),
        (
            "unix://ann:secret@/run/redis.sock",
            Options("", SOCKET, username="ann", password=WORD),
        ),
        ("rediss://db?ca=/ca.pem", Options("", (Address("db", 6379),), tls=Tls(ca="/ca.pem"))),
        (
            "redis+sentinel://a,b:1/jobs/4?sentinel_password=secret",
            Options(
                "sentinel",
                (Address("a", 26379), Address("b", 1)),
                service="jobs",
                database=4,
                sentinel_password=WORD,
            ),
        ),
        (
            "rediss+cluster://a,b:1",
            Options("cluster", (Address("a", 6379), Address("b", 1)), tls=Tls()),
        ),
    ],
)
def test_a_url_says_where_and_how(url: str, options: Options) -> None:
    assert read_options(url) == options


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("redis://db?sync=full", "nobody knows sync; known are prefix, partitions"),
        ("redis://db/x", "the database must be a whole number"),
        ("redis://db/1/2", "its path says too much"),
        ("redis://a,b", "names many servers; say redis"),
        ("redis://db:port", "'db:port' .* is no host and port"),
        ("redis+cluster://db/1", "its path says too much"),
        ("redis+sentinel://db", "lacks the service"),
        ("redis://db?ca=/ca.pem", "is about TLS; begin it with rediss"),
        ("redis://db?prefix={x}", "prefix '{x}' will not do"),
        ("redis://db?partitions=0", "partitions must be a whole number from 1 to 512"),
        ("redis://db?ack=paper", "no ack=paper; choose one of memory, fsync, replica"),
        ("redis://db?unsafe=yes", "say 1 for yes or 0 for no"),
        ("redis://db?patience=forever", "a number of seconds"),
    ],
)
def test_a_mistake_is_told_with_what_would_do(url: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        read_options(url)


@pytest.mark.parametrize(
    "url", ["redis://db:65536", "redis://db:²", "redis://db/²", "redis://db:3٣"]
)
def test_numbers_that_no_server_can_have_are_refused(url: str) -> None:
    with pytest.raises(BadInput):
        read_options(url)


def test_no_complaint_tells_the_password() -> None:
    with pytest.raises(BadInput) as complaint:
        read_options("redis://ann:secret@db?sync=full")
    assert "secret" not in str(complaint.value)

"""URLs of brokers: what they mean, and what is wrong with them."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any

import pytest

from stoker.bridges import open_bridge
from stoker.bridges.address import read_address
from stoker.bridges.kafka import _settings
from stoker.desk import Desk
from stoker.errors import BadInput, StokerError
from stoker.store.memory import MemoryStore


def test_a_url_is_taken_apart() -> None:
    address = read_address("kafka://us%40er:p%3Aw@a:1,b/x.y?group=g&key=order.id")
    assert (address.hosts, address.path) == (("a:1", "b:9092"), "x.y")
    assert (address.user, address.password) == ("us@er", "p:w")
    assert address.options == {"group": "g", "key": "order.id"}
    assert str(address) == "kafka://a:1,b:9092/x.y"
    assert read_address("mqtts://[::1]/a/%23?client=c").host() == ("::1", 8883)
    assert read_address("mqtt:///a/+?client=c").host() == ("127.0.0.1", 1883)
    assert read_address("amqp://h/my%2Fhost?queue=q").path == "my/host"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://x", "names no broker; begin with one of kafka://"),
        ("kafka://h", "kafka:// needs a topic"),
        ("kafka://h/t?session=soon", "session= is a number of seconds"),
        ("nats://h", "nats:// needs a subject"),
        ("nats://h/a?durable=d&group=g", "leave out group="),
        ("mqtt://h/a/+", "needs client=NAME"),
        ("mqtt://h?client=c", "mqtt:// needs a topic"),
        ("mqtt://h,i/a?client=c", "mqtt:// takes one host, not h:1883, i:1883"),
        ("mqtt://h/a/#?client=c", "write it as %23"),
        ("amqp://ann:pass#word@h/?queue=q", "in 'amqp://ann:***@h/?queue=q' write it as %23"),
        ("amqp://ann:pass/word@h/?queue=q", "write / in a password as %2F"),
        ("kafka://[::1/t?group=g", "Invalid IPv6 URL"),
        ("kafka://h:65536/t?group=g", "'h:65536' is no address"),
        ("kafka://h/t?group=", "an option is written name=value"),
        ("kafka://h/t?group=g&task=", "an option is written name=value"),
        ("kafka://h/t?group=g&task=\udcff", "task= holds half a character"),
        ("ann:secret@h", "names no broker"),
        ("amqp://h/", "amqp:// needs a queue"),
        ("nats://h:port/a", "'h:port' is no address"),
        ("nats://h/a?kye=x", "nats:// has no option kye; it has durable"),
        ("nats://h/a?key=x&header=y", "key= and header= cannot both be said"),
        ("nats://h/a?task=x&key=y", "task= and key= cannot both be said"),
        ("nats://h/a?form=xml", "form= must be json or text"),
    ],
)
def test_what_cannot_be_meant_is_refused(url: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        open_bridge(Desk(MemoryStore()), url)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("kafka://h/t", "aiokafka", "kafka"),
        ("nats://h/t", "nats", "nats"),
        ("mqtts://h/t?client=c", "paho", "mqtt"),
        ("amqp://h/?queue=q", "aio_pika", "amqp"),
    ],
)
def test_a_missing_package_is_told_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, url: str, package: str, extra: str
) -> None:
    monkeypatch.delitem(sys.modules, f"stoker.bridges.{extra}", raising=False)
    monkeypatch.setattr(builtins, "__import__", _without(package))
    with pytest.raises(StokerError, match=rf"needs {package}.*pip install 'stoker\[{extra}\]'"):
        open_bridge(Desk(MemoryStore()), url)


def _without(package: str) -> Callable[..., Any]:
    usual = builtins.__import__

    def find(name: str, *more: Any, **rest: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return usual(name, *more, **rest)

    return find


def test_kafka_logs_in_as_the_url_says() -> None:
    plain = _settings(read_address("kafka://h/t"))
    assert plain == {"bootstrap_servers": ["h:9092"], "security_protocol": "PLAINTEXT"}
    login = _settings(read_address("kafka+tls://me:pw@h/t?mechanism=SCRAM-SHA-512"))
    assert login["security_protocol"] == "SASL_SSL"
    assert login["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (login["sasl_plain_username"], login["sasl_plain_password"]) == ("me", "pw")
    assert login["ssl_context"].check_hostname

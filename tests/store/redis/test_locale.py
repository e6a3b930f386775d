"""A server under a locale by whose rules text sorts otherwise than its bytes do."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.errors import StoreUnfit
from stoker.store.redis import RedisStore
from tests.servers import valkey
from tests.servers.valkey import Server
from tests.store.conformance.acts import put, take

CODES = range(1, 128)


@pytest.fixture
def backwards(tmp_path: Path) -> Mapping[str, str]:
    """A locale in which text sorts backwards. Real ones need not be there, and are no better."""
    names = [f"<U{code:04X}>" for code in CODES]
    letters = "".join(f"{name} /x{code:02x} C\n" for code, name in zip(CODES, names, strict=True))
    charmap = tmp_path / "letters"
    charmap.write_text(
        f"<code_set_name> LETTERS\n<mb_cur_max> 1\nCHARMAP\n{letters}END CHARMAP\n", "ascii"
    )
    order = tmp_path / "order"
    turned = "\n".join(reversed(names))
    order.write_text(
        f"LC_COLLATE\norder_start forward\n{turned}\norder_end\nEND LC_COLLATE\n", "ascii"
    )
    command = ["localedef", "-c", "-i", str(order), "-f", str(charmap), str(tmp_path / "backwards")]
    made = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (tmp_path / "backwards" / "LC_COLLATE").exists(), made.stderr
    return {"LC_ALL": "", "LC_COLLATE": "backwards", "LOCPATH": str(tmp_path)}


def test_a_server_that_compares_text_by_its_locale_is_refused_until_it_does_not(
    backwards: Mapping[str, str],
) -> None:
    with valkey.server(locale=backwards) as server, server.client() as client:
        with pytest.raises(StoreUnfit, match="tell it CONFIG SET locale-collate C"):
            RedisStore(server.url())
        client.config_set("locale-collate", "C")
        store = RedisStore(server.url())
        desk = Desk(store)
        later, sooner = put(desk, rank=5), put(desk, rank=-5)
        assert [take(desk).id, take(desk).id] == [sooner, later]
        store.close()


def test_a_server_that_comes_back_under_such_a_locale_is_refused_by_those_who_use_it(
    backwards: Mapping[str, str],
) -> None:
    with valkey.server(valkey.DURABLE) as server:
        store = RedisStore(server.url())
        desk = Desk(store)
        first = put(desk)
        restart(server, backwards)
        with pytest.raises(StoreUnfit, match="or start it with LC_ALL=C"):
            put(desk)
        restart(server, valkey.BY_BYTES)
        assert take(desk).id == first
        store.close()


def restart(server: Server, locale: Mapping[str, str]) -> None:
    server.stop()
    server.locale = locale
    server.start()

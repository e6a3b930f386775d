"""Every setting is documented."""

from __future__ import annotations

import msgspec
import pytest

from stoker.kernel.policy import Policy
from stoker.kernel.queue import QueueSettings
from tests.architecture.tree import ROOT

PAGE = ROOT / "docs" / "reference" / "settings.md"


@pytest.mark.parametrize("settings", [QueueSettings, Policy])
def test_every_setting_is_on_the_settings_page(settings: type[msgspec.Struct]) -> None:
    names = [field.name for field in msgspec.structs.fields(settings)]
    page = PAGE.read_text(encoding="utf-8")
    assert names
    assert [name for name in names if f"`{name}`" not in page] == []

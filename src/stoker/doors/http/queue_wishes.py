"""What may be asked of a queue."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoker.doors.http.wishes import Duration, NewRetention, Places, Wish
from stoker.kernel.queue import QueueSettings
from stoker.kernel.queue_forms import read_settings

RateText = Annotated[
    str, Meta(examples=["100 per minute", "1000 per day, fixed", "10 per second, burst 50"])
]
WindowsText = Annotated[str, Meta(examples=["mon-fri 08:00-18:00 in Europe/Berlin"])]
MaintenanceText = Annotated[
    str, Meta(examples=["sun 02:00-04:00, drain 30m", "2027-03-28 02:00 to 2027-03-28 04:00"])
]
Percent = Annotated[float, Meta(ge=0, le=100)]


class QueueChange(Wish, frozen=True, kw_only=True):
    """Settings of a queue; null takes a limit away. What is said by key or by task is said whole.

    Rates are texts, such as `100 per minute`, and so are windows and maintenance.
    """

    capacity: Places | UnsetType | None = UNSET
    key_capacity: Places | UnsetType | None = UNSET
    keys: dict[str, Places] | UnsetType = UNSET
    order: Literal["rank-time", "time-rank"] | UnsetType = UNSET
    paused: bool | UnsetType = UNSET
    retention: NewRetention | UnsetType = UNSET
    tasks: dict[str, Places] | UnsetType = UNSET
    shares: dict[str, Percent] | UnsetType = UNSET
    lend: bool | UnsetType = UNSET
    rate: RateText | UnsetType | None = UNSET
    key_rate: RateText | UnsetType | None = UNSET
    key_rates: dict[str, RateText] | UnsetType = UNSET
    task_rates: dict[str, RateText] | UnsetType = UNSET
    within: str | UnsetType | None = UNSET
    fair: bool | UnsetType = UNSET
    turns: dict[str, Places] | UnsetType = UNSET
    ageing: Duration | UnsetType | None = UNSET
    windows: WindowsText | UnsetType | None = UNSET
    maintenance: list[MaintenanceText] | UnsetType = UNSET
    throttled: bool | UnsetType = UNSET

    def read(self, before: QueueSettings) -> QueueSettings:
        """The settings; what is left out is as before."""
        said = {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not UNSET
        }
        if "retention" in said:
            said["retention"] = said["retention"].read(before.retention)
        return msgspec.structs.replace(before, **read_settings(said))

"""`stoker bridge`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import click

from stoker.doors.cli import show
from stoker.doors.cli.command import Command, opened
from stoker.doors.cli.worker import LOG_FORMAT

if TYPE_CHECKING:
    from stoker.doors.cli.place import Place


@click.command(
    cls=Command,
    examples=[
        "stoker bridge 'kafka://127.0.0.1:9092/answers?group=shop&key=order.id'",
        "stoker bridge 'nats://127.0.0.1:4222/answers.*?durable=shop'",
        "stoker bridge 'mqtt://127.0.0.1:1883/answers/+?client=shop'",
        "stoker bridge 'amqp://guest:guest@127.0.0.1/?queue=answers'",
        "stoker bridge 'nats://127.0.0.1/orders?durable=shop&task=ship&into=orders'",
    ],
)
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@opened(make=True)
def bridge(place: Place, *, urls: tuple[str, ...]) -> None:
    """Take answers for waiting jobs from brokers, until SIGTERM or Ctrl-C.

    A message answers the job that waits for its key: with key=PATH what stands there in its JSON
    body, with header=NAME what that header or property says; prefix=TEXT is put before it. With
    task=NAME it becomes a job of that task instead, in the queue that into= names. It is
    acknowledged when that is durable. Useless messages are told of, and sent to dead=PLACE.
    """
    from stoker.bridges import open_bridge
    from stoker.doors.porter import keep_open

    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    for noisy in ("aiokafka", "aiormq", "aio_pika", "nats"):
        logging.getLogger(noisy).setLevel(logging.ERROR)  # the bridge tells of it itself
    bridges = [open_bridge(place.desk, url) for url in urls]
    keep_open(place.desk, bridges, lambda what: show.note(f"{what}, jobs in {place.shown}"))

"""Worqr: a work queue between peers. No server, just the store, and an application's own processes.

>>> import asyncio
>>> from stoker.worqr import Worqr
>>> async def main():
...     async with Worqr("memory:") as worqr:
...         await worqr.enqueue("mail", ["to ann", "to bob"])
...         await worqr.start_worker()
...         await worqr.start_work("mail")
...         process = await worqr.start_task("mail")
...         print(process.task)
...         await worqr.finish_task(process.id)
>>> asyncio.run(main())
to ann

worqr      the API: what may be done, under both its names
settings   how a peer is set up, also from a file
forms      tasks as jobs, queues and processes by their names
events     what peers tell each other
listeners  who in the application wants to hear of them
acts       what is done at the desk, in words of queues, tasks and workers
counter    a thread that takes what the application wants done to the desk, many at a time
watchman   a thread that listens, beats, and looks after the other peers
"""

from stoker.worqr.events import Done, Event, EventType
from stoker.worqr.forms import Process
from stoker.worqr.worqr import Worqr

__all__ = ["Done", "Event", "EventType", "Process", "Worqr"]

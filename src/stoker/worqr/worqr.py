# ruff: noqa: N815 - some names are the protocol's
"""The API under all its names: those of Python, and those of the protocol."""

from __future__ import annotations

from stoker.worqr.workers import Workers


class Worqr(Workers):
    """A peer: it puts tasks into queues, and works on them if it likes.

    `store` is a URL, or a store that is open; by default what STOKER_STORE names. Options are those
    of `stoker.worqr.settings.Settings`, times in seconds.

    >>> import asyncio
    >>> async def main():
    ...     async with Worqr("memory:", worker_id="ann") as worqr:
    ...         await worqr.startWorker()
    ...         await worqr.startWork("mail")
    ...         events = worqr.events("mail")
    ...         await worqr.enqueue("mail", b"raw \\x00 bytes", unique=True)
    ...         event = await anext(events)
    ...         print(event.queue, event.type, event.message)
    ...         return await worqr.startTask("mail")
    >>> asyncio.run(main()).task
    mail work 1
    b'raw \\x00 bytes'
    """

    dequeue = startTask = Workers.start_task
    stopTask = stopProcess = stop_process = Workers.stop_task
    finishTask = finishProcess = finish_process = Workers.finish_task
    getMatchingProcesses = Workers.get_matching_processes

    getQueues = Workers.get_queues
    peekQueue = Workers.peek_queue
    countQueue = Workers.count_queue
    getTasks = Workers.get_tasks
    deleteQueue = Workers.delete_queue
    cancelTasks = Workers.cancel_tasks
    requestWork = Workers.request_work

    getWorkerId = Workers.get_worker_id
    getWorkers = Workers.get_workers
    getWorkingQueues = Workers.get_working_queues
    startWorker = Workers.start_worker
    keepWorkerAlive = Workers.keep_worker_alive
    stopWorker = Workers.stop_worker
    failWorker = Workers.fail_worker
    cleanupWorkers = Workers.cleanup_workers
    startWork = Workers.start_work
    stopWork = Workers.stop_work

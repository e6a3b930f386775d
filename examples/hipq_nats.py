"""An HTTP request goes out, and its answer comes in over a broker: nobody waits for it meanwhile.

python examples/hipq_nats.py nats://127.0.0.1:4222
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import TemporaryDirectory
from urllib.request import urlopen

import nats

from stoker.bridges import Bridge, open_bridge
from stoker.hipq import Hipq, HipqJob


class Bank(BaseHTTPRequestHandler):
    """A service elsewhere: it takes orders over HTTP, and tells of them later, over NATS."""

    broker = ""

    def do_POST(self) -> None:
        """Take an order."""
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(202)
        self.end_headers()
        threading.Thread(target=lambda: asyncio.run(self.tell(order))).start()

    async def tell(self, order: dict[str, int]) -> None:
        """Tell of an order, when it is seen to."""
        answer = {"number": order["number"], "paid": order["coins"] <= 100}
        async with await nats.connect(self.broker) as client:
            await client.publish("bank.answers", json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def orders(store: str, port: int) -> Hipq:
    """The queue, and what is done with its jobs."""
    hipq = Hipq(store)
    hipq.create_queue("orders", {"throttle_limit": 2, "job_types": [{"job_type": "charge"}]})

    def request(job: HipqJob) -> None:
        body = json.dumps({"number": job.job_key, **job.job_data}).encode()
        urlopen(f"http://127.0.0.1:{port}/", body).close()

    def response(job: HipqJob, answer: dict[str, bool]) -> str:
        if not answer["paid"]:
            raise ValueError(f"{job.job_data['coins']} coins are too many")
        return f"order {job.job_key} is paid"

    def retry(job: HipqJob) -> None:
        print(f"order {job.job_key} was refused in try {job.attempt}")

    hipq.set_handlers("orders", "charge", request, response, retry)
    return hipq


async def carry(bridge: Bridge, over: threading.Event) -> None:
    """What `stoker bridge` does in a process of its own."""
    await bridge.open()
    await asyncio.to_thread(over.wait)
    await bridge.close()


def main(broker: str, store: str) -> None:
    Bank.broker = broker
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bank)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hipq = orders(store, server.server_address[1])

    over = threading.Event()
    url = f"{broker}/bank.answers?key=number&prefix={hipq.reply_key('charge', '')}"
    bridge = open_bridge(hipq.app.desk, url)
    carrier = threading.Thread(target=lambda: asyncio.run(carry(bridge, over)))
    carrier.start()
    while not bridge.connected:
        time.sleep(0.01)

    hipq.start()
    for number, coins in (("4711", 11), ("4712", 1000)):
        charge = {"job_type": "charge", "job_key": number, "job_data": {"coins": coins}}
        job_id = hipq.queue_job("orders", charge)
        while (job := hipq.job(job_id)).state != "final":
            time.sleep(0.01)
        print(f"order {number} is {job.state}, error {job.error.splitlines()[0]}")
    over.set()
    carrier.join()
    hipq.close()
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(sys.argv[1], f"sqlite:///{folder}/jobs.db")

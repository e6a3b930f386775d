"""An order waits for its payment, of which a web hook tells; meanwhile it holds no worker.

python examples/webhook_reply.py
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import chdir
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import TemporaryDirectory
from urllib.request import Request, urlopen

from stoker import JobHandle, Stoker, current

app = Stoker("sqlite:///jobs.db")


@app.task
def ship(order: int) -> str:
    coins = current().wait_for_reply(f"payment {order}", timeout="7d", as_type=int)
    return f"order {order} was paid with {coins} coins and is on its way"


class WebHook(BaseHTTPRequestHandler):
    """Turns POST /payment/4711 into a reply."""

    def do_POST(self) -> None:
        """Pass the answer on."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key = self.path.strip("/").replace("/", " ")
        answer = app.reply(key, json.loads(body)["coins"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def bank(server: ThreadingHTTPServer, order: int, coins: int) -> None:
    """What happens somewhere else."""
    host, port = "127.0.0.1", server.server_address[1]
    body = json.dumps({"coins": coins}).encode()
    with urlopen(Request(f"http://{host}:{port}/payment/{order}", body)) as response:
        print(f"the bank tells of order {order}: {response.read().decode()}")


def until_it_waits(job: JobHandle[str]) -> None:
    while job.job.waits_for is None:
        time.sleep(0.01)


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), WebHook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    worker = app.worker()
    worker.start()

    first = ship.enqueue(4711)
    until_it_waits(first)
    print(f"order 4711 is {first.state}, and waits for {first.job.waits_for}")
    bank(server, 4711, coins=11)
    print(first.wait(timeout="30s"))

    bank(server, 4712, coins=12)  # before anybody asked
    print(ship.enqueue(4712).wait(timeout="30s"))

    worker.stop()
    server.shutdown()
    server.server_close()
    app.close()


if __name__ == "__main__":
    with TemporaryDirectory() as folder, chdir(folder):
        main()

"""A proxy before a server on a socket, that cuts connections and holds things up as it is told."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

HOST = "127.0.0.1"
_AT_ONCE = 1 << 16


class Proxy:
    """Passes everything on, both ways, until told otherwise."""

    def __init__(
        self,
        server: Path,
        folder: Path,
        *,
        by_port: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.socket = folder / "proxy"
        self.lose_answers_to: bytes | None = None
        """Cut the connection instead of passing on the answer to the next question with this."""
        self.cut_questions_after: int | None = None
        """Cut the connection when so many bytes of the next question have been passed on."""
        self.life: Callable[[], tuple[int, int]] | None = None
        """Says of each new connection when to cut it: after so many bytes there, or back."""
        self.piece = _AT_ONCE
        """Pass on no more than this of an answer at a time."""
        self.silent = False
        """Pass on no answers."""
        self.deaf = False
        """Take in no questions."""
        self.flowing = threading.Event()
        """While it is not set nothing passes, either way, and nothing is cut or lost."""
        self.flowing.set()
        self.cuts = 0
        self.questions: list[bytes] = []
        """All that was asked."""
        self._server = server
        self._by_port = by_port
        self._tls = tls
        if by_port:
            self._listener = socket.create_server((HOST, 0))
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(self.socket))
            self._listener.listen()
        self._open: set[socket.socket] = set()
        self._stranded: set[socket.socket] = set()
        self._over = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens, if it does so on a port."""
        return int(self._listener.getsockname()[1])

    def url(self, prefix: str) -> str:
        """The address of a store behind it."""
        if not self._by_port:
            return f"unix://{self.socket}?prefix={prefix}"
        scheme = "rediss" if self._tls is not None else "redis"
        return f"{scheme}://{HOST}:{self.port}?prefix={prefix}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        if self._tls is not None:
            client = self._tls.wrap_socket(client, server_side=True)
        with client, socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
            server.connect(str(self._server))
            self._open |= {client, server}
            if self.life is None:
                self._pass_on(client, server)
            else:
                self._pass_on_for_a_while(client, server)
        self._open -= {client, server}

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        doomed = False
        while True:
            ready, _, _ = select.select([server] if self.deaf else [client, server], [], [])
            self.flowing.wait()
            if client in self._stranded:
                self._over.wait()
            if client in ready:
                question = client.recv(_AT_ONCE)
                self.questions.append(question)
                if self.cut_questions_after is not None and b"FCALL" in question:
                    server.sendall(question[: self.cut_questions_after])
                    self.cut_questions_after = None
                    self.cuts += 1
                    return
                doomed = doomed or self._is_doomed(question)
                server.sendall(question)
                if not question:
                    return
            elif doomed:
                server.recv(_AT_ONCE)  # the question was answered, so it took effect
                self.cuts += 1
                return
            else:
                answer = server.recv(_AT_ONCE)
                if not answer:
                    return
                for at in range(0, 0 if self.silent else len(answer), self.piece):
                    client.sendall(answer[at : at + self.piece])

    def _pass_on_for_a_while(self, client: socket.socket, server: socket.socket) -> None:
        assert self.life is not None
        there, back = self.life()
        left = {client: there, server: back}
        while min(left.values()):
            ready, _, _ = select.select([client, server], [], [])
            self.flowing.wait()
            source, target = (client, server) if client in ready else (server, client)
            some = source.recv(min(left[source], _AT_ONCE))
            if not some:
                return
            target.sendall(some)
            left[source] -= len(some)
        self.cuts += 1

    def _is_doomed(self, question: bytes) -> bool:
        doomed = self.lose_answers_to is not None and self.lose_answers_to in question
        if doomed:
            self.lose_answers_to = None
        return doomed

    def strand_all(self) -> None:
        """Pass nothing on any more of what is open by now, and cut nothing: neither end hears of
        it. New connections are as they were."""
        self._stranded |= self._open

    def cut_all(self) -> None:
        """Cut every connection there is."""
        for end in list(self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Pass nothing on any more."""
        self.flowing.set()
        self._over.set()
        self._listener.close()
        self.cut_all()


@contextlib.contextmanager
def proxy_before(
    server: Path, folder: Path, *, by_port: bool = False, tls: ssl.SSLContext | None = None
) -> Iterator[Proxy]:
    """A proxy for one test, on a socket of its own or on a port."""
    proxy = Proxy(server, folder, by_port=by_port, tls=tls)
    try:
        yield proxy
    finally:
        proxy.close()

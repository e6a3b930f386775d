"""One connection, made by redis-py: logins, TLS and sockets are its business, retries are ours."""

from __future__ import annotations

from typing import Any

from hiredis import pack_command
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry

from stoker.store.redis.options import Options, Tls
from stoker.store.redis.topology import Address

Argument = bytes | str | int | float

_READ_SIZE = 1 << 20


class _Pollable:
    """A connection one can wait for beside others."""

    _sock: Any

    def fileno(self) -> int:
        return int(self._sock.fileno())


class _Tcp(_Pollable, Connection):
    pass


class _Tls(_Pollable, SSLConnection):
    pass


class _Socket(_Pollable, UnixDomainSocketConnection):
    pass


def connect(options: Options, address: Address, *, sentinel: bool = False) -> Any:
    """A connection to one server, which is made when it is first used."""
    kind, settings = _kind(options, address)
    if sentinel:
        settings |= {"username": options.sentinel_username, "password": options.sentinel_password}
    else:
        settings |= {"username": options.username, "password": options.password}
        settings["db"] = options.database
    return kind(
        **settings,
        protocol=2,
        # A little more, so that whoever waits in the server for a replica or a disk comes first.
        socket_timeout=options.patience + 1.0,
        socket_connect_timeout=max(options.patience, 1.0),
        socket_read_size=_READ_SIZE,
        retry=Retry(NoBackoff(), 0),
        driver_info=None,
    )


def _kind(options: Options, address: Address) -> tuple[Any, dict[str, Any]]:
    if not address.port:
        return _Socket, {"path": address.host}
    place = {"host": address.host, "port": address.port}
    if options.tls is None:
        return _Tcp, place
    return _Tls, place | _tls(options.tls)


def _tls(tls: Tls) -> dict[str, Any]:
    return {
        "ssl_ca_certs": tls.ca,
        "ssl_certfile": tls.cert,
        "ssl_keyfile": tls.key,
        "ssl_cert_reqs": "required" if tls.verify else "none",
        "ssl_check_hostname": tls.verify,
    }


def say(line: Any, *command: Argument) -> Any:
    """Send a command and read its answer. An error that the server tells is raised."""
    return exchange(line, packed(*command))


def packed(*command: Argument) -> bytes:
    """A command in the form in which it travels.

    Numbers are written down here: an interrupt while hiredis does it would end the process.
    """
    told = [word if isinstance(word, (bytes, str)) else str(word) for word in command]
    words: Any = tuple(told)  # of which there may be more than the function's stub knows
    return bytes(pack_command(words))


def exchange(line: Any, command: bytes) -> Any:
    """Send a packed command and read its answer."""
    line.send_packed_command((command,), check_health=False)
    return line.read_response(disable_decoding=True)

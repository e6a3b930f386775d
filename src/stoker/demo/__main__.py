"""Runs the show in a folder that is gone afterwards."""

from __future__ import annotations

import os
import signal
import sys
from tempfile import TemporaryDirectory


def main() -> int:
    """0 if the books balance, 1 if not, 130 if somebody ended the show early."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with TemporaryDirectory(prefix="stoker-demo-") as folder:
        # The app looks for its store when it is imported, here and in every other process.
        os.environ["STOKER_STORE"] = f"sqlite:///{folder}/jobs.db"
        from stoker.demo.screen import Screen  # noqa: PLC0415
        from stoker.demo.show import Show  # noqa: PLC0415

        try:
            return 0 if Show(Screen()).run() else 1
        except KeyboardInterrupt:
            print("\nended early; no process is left behind.")
            return 130


if __name__ == "__main__":
    sys.exit(main())

"""The command line: `stoker`, or `python -m stoker`.

root       the table of commands, exit codes, errors in one line
jobs, queues, schedule ...   a file for each command, which goes to the desk and shows
place      from --store and --app to an open desk
streams    standard input, output and errors, in whatever state they are
show       all that is printed: tables, facts, JSON
words      times, durations and settings, as people write and read them
"""

from __future__ import annotations

import sys

from stoker.doors.cli import streams


def main() -> None:
    """Run the command line and leave with its exit code."""
    streams.set_up()
    try:
        from stoker.doors.cli.root import root  # click is an extra
    except ModuleNotFoundError as missing:
        if missing.name != "click":
            raise
        sys.exit("stoker: error: the command line needs click; pip install 'stoker[cli]'")
    root.main(prog_name="stoker")

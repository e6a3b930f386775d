"""Why no transaction of Python's own `sqlite3` can take part: two libraries in one process."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import apsw

from tests.store.sqlite.process import Process

WRITING = """
import sqlite3
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
while wait_for_a_word():
    try:
        connection.execute("INSERT INTO song VALUES ('theirs')")
        say("written")
    except sqlite3.OperationalError as error:
        say(str(error))
"""


def test_closing_a_file_in_one_library_drops_the_locks_of_the_other(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.db")
    holder = apsw.Connection(path)
    holder.execute("CREATE TABLE song (title)")
    with Process(WRITING, path) as other:
        holder.execute("BEGIN IMMEDIATE")
        holder.execute("INSERT INTO song VALUES ('ours')")
        other.tell("write")
        assert other.hear() == "database is locked"
        guest = sqlite3.connect(path)
        guest.execute("SELECT count(*) FROM song").fetchall()
        guest.close()
        other.tell("write")
        assert other.hear() == "written", "the lock has held: is sqlite3 safe beside apsw by now?"
    holder.close()

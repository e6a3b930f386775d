"""SQLite's statements and migrations, as files."""

"""PostgreSQL's statements, routines and migrations, as files."""

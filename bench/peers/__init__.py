"""Stoker beside other job queues on one engine, each as its users run it: `python -m bench peers`.

cast.py, fetch.py    what a contestant is, and how peers are installed
on_sqlite.py ...     the peers on an engine, and what we want to reach beside them
on_several.py        those that run on more than one
drivers/             what each contestant does in processes of its own
stage.py             starting, hearing and ending these processes
throughput.py ...    the measures, and `contest.py`, which puts them together
"""

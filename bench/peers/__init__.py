"""Stoker beside other job queues on SQLite, each as its users run it: `python -m bench peers`.

cast.py, fetch.py    who takes part, and how the others are installed
drivers/             what each contestant does in processes of its own
stage.py             starting, hearing and ending these processes
throughput.py ...    the measures, and `contest.py`, which puts them together
"""

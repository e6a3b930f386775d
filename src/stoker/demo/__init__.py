"""A small show: `python -m stoker.demo`.

Two producers and a fleet of three workers, all processes of their own, share one SQLite file for
some ten seconds. There are retries, a repeating task, parents with children, tenants that get one
place each, films that tell how far they are, and a worker that is killed with jobs in hand. In
the end the books must balance.

tasks      what there is to do: an app like any other
producers  two processes that enqueue
show       the director: starts, kills, watches, and balances the books
screen     what one sees of it
"""

"""What Stoker costs, beside the leanest loop an engine allows and beside peers: `python -m bench`.

engines/           SQLite, Redis and PostgreSQL, their servers and the leanest loops on them
raw.py, ours.py    the loops on SQLite that race each other
claims.py ...      one benchmark a file, all the same shape, listed in `benches.py`
line.py            a queue that a real worker drains, for those that need one
policy/            the one about limits, rates and turns
peers/             the one with other job queues, each in processes of its own
page.py            the results' places in docs/benchmarks.md
"""

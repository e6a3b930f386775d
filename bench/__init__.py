"""What Stoker costs, beside the leanest loop SQLite allows and beside its peers: `python -m bench`.

raw.py, ours.py    the loops that race each other
claims.py ...      one benchmark a file, all the same shape, listed in `benches.py`
peers/             the one with other job queues, each in processes of its own
page.py            the results' place in docs/benchmarks.md
"""

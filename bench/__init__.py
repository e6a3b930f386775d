"""What Stoker costs, beside the leanest loop SQLite allows: `python -m bench`.

raw.py, ours.py    the loops that race each other
claims.py ...      one benchmark a file, all the same shape, listed in `benches.py`
page.py            the results' place in docs/benchmarks.md
"""

"""What limits, rates and turns cost: `python -m bench policy`.

policies.py        the settings that are tried
drains.py          drains under each of them, by a worker process and by the engine alone
claims.py          single claims among many keys, and behind a flood
measures.py        all of it together
"""

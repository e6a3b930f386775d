"""The fleet: worker processes of one app, started, watched and ended from outside.

A process that runs no handlers cannot be blocked by one: the supervisor keeps the sessions of its
workers alive while they are too busy to do it themselves, and knows at once when one has died.
"""

"""The rulebook: what a job is and what may happen to it.

Pure: nothing here reads a clock, rolls dice, does I/O or knows a store. Time comes in as an
argument, in UTC microseconds; decisions go out as values (`kernel.change.Change`).
"""

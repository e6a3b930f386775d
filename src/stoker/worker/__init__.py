"""The workshop: takes jobs from the desk, runs the user's handlers, reports what came of them.

ferry       claims and reports, in batches that follow the load
crews       threads, an event loop, processes: where handlers run
performing  one handler, and its outcome as a value
heart       leases, time limits, cancel requests; has the session's beats made by beaters
worker      all of it together, in one process
supervisor  several such processes, watched from outside
"""

"""The doors: ways into Stoker for whoever is not a Python program.

A door translates; it decides nothing about a job's life. Whatever it is asked for goes to the desk.
What several doors need stands beside them: `porter` (opens and closes), `gather` (from the event
loop to the desk, many at a time), `ear` (hears the bell), `signpost` (who waits for which queues),
`forms` (jobs as JSON).
"""

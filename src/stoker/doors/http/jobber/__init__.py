"""Jobber over HTTP: its route, the names its source and its ancestor Walrus use, and a worker.

routes   POST /jobber/queue and the others: a job's type is its queue, `job_queue_` and the type
worker   takes one job of a type at a time: handler, visibility timeout, what to do with results
"""

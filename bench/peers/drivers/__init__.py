"""One driver for each contestant: how it enqueues and how it works, in processes of its own.

A driver runs in the contestant's own environment, so it imports nothing but the contestant and its
neighbours here. `enqueue` takes orders on its input, `work` works until it is ended.
"""

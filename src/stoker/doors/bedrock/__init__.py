"""The Bedrock door: jobs over TCP, in the line protocol of Bedrock::Jobs.

server       listens, lets connections in and out
connection   one after another: request, answer; notices who goes away
protocol     bytes to requests, replies to bytes; no socket
commands     the table of commands: a request to what is to be done (`intents`)
             with `creating`, `changing` and `values` for what stands in headers
words        a job in Bedrock's words, and the other way round
counter      carries intents out, in batches; `handout` and `waiting` (GetJob), `leases`
query        read-only SQL over the jobs
refusals     every status line but 200
"""

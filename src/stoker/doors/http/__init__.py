"""The HTTP door: a JSON API for any language, and the routes of Jobber and Walrus.

server      opens and closes the door: uvicorn, its limits and time limits
app         all operations of the door, put behind their paths
endpoint    one path: who may enter, what was said, what is answered
office      carries requests to the desk, many at a time; `waiting` (claims), `observer` (events)
jobs, work, queues, schedules, events, tokens   the operations, each a thin function
wishes      what may be said, as types; the OpenAPI page is generated from them
problems    every answer that is no success
gate        tokens, scopes and how often one may call; `once`, `marks` are for Idempotency-Key
jobber/     the routes of Jobber and Walrus, a worker for them, results posted to a URL
"""

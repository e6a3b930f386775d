"""JSON lines: messages on standard input and output, the log on standard error.

wire        lines into messages and back; times; without any stream
intents     what a message comes down to
topics      the table of topics: each a small function from a message to an intent
batch       what a run of messages wants, sorted
words       jobs as the objects that creators and workers exchange
roster      the workers that were heard of here, and which of them are idle
processor   what is done about a batch of messages
listings    answers to those who ask what is waiting, given out, in work
inbox       lines that were read, by a thread of its own
loop        sleeping, seeing to what came, ending
settings    who we are on the bus, and how long things may take
log         log entries, one JSON object a line
"""

"""Bridges: messages of a broker become answers for jobs that wait, or jobs.

address   which broker, and what of it, from a URL
message   one message, and where its key stands
errands   what is done with a message: answer a job, or take one in
bridge    the core: takes messages, does the errand, and only then tells the broker
kafka     Apache Kafka, as a member of a consumer group
nats      NATS, with JetStream or without
mqtt      MQTT 3.1.1, with a session that lasts
amqp      AMQP 0-9-1, such as RabbitMQ

Each of the four needs the extra of its name.
"""

from stoker.bridges.address import open_bridge
from stoker.bridges.bridge import Bridge
from stoker.bridges.message import Broker, Message

__all__ = ["Bridge", "Broker", "Message", "open_bridge"]

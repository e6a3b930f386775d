// BullMQ on Node: its queue over ioredis, and its worker.

import { handle, load, serve, url } from "./bench.mjs";

const CONCURRENCY = 100;
const NAME = "nothing";

const { Queue, Worker } = await load("bullmq");
const { default: Redis } = await load("ioredis");

// Its workers insist on this: they block on a command for as long as it takes.
const connection = new Redis(url, { maxRetriesPerRequest: null });

async function enqueue() {
  const queue = new Queue("bench", { connection });
  await queue.waitUntilReady();
  await serve(
    (payload) => queue.add(NAME, payload),
    (payloads) => queue.addBulk(payloads.map((data) => ({ name: NAME, data }))),
  );
}

function work() {
  const options = { connection, concurrency: CONCURRENCY, removeOnComplete: { count: 0 } };
  new Worker("bench", (job) => handle(job.data), options).on("error", console.error);
}

await (process.argv[2] === "enqueue" ? enqueue() : work());

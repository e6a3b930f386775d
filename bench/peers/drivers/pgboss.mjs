// pg-boss on Node: its queue, and its worker.

import { handle, load, poll, serve, url } from "./bench.mjs";

const BATCH = 500;
const NAME = "nothing";

const { PgBoss } = await load("pg-boss");

const boss = new PgBoss({ connectionString: url, useListenNotify: true });
boss.on("error", console.error);
await boss.start();

async function enqueue() {
  await boss.createQueue(NAME, { notify: true });
  await serve(
    (payload) => boss.send(NAME, { payload }),
    (payloads) => boss.insert(NAME, payloads.map((payload) => ({ data: { payload } }))),
  );
}

async function work() {
  const options = { batchSize: BATCH, burstWhenBatchFull: true };
  if (poll !== null) options.pollingIntervalSeconds = poll;
  await boss.work(NAME, options, async (jobs) => {
    for (const job of jobs) await handle(job.data.payload);
  });
}

await (process.argv[2] === "enqueue" ? enqueue() : work());

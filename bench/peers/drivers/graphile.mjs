// graphile-worker on Node: its utilities, and its worker with a local queue.

import { handle, load, serve, url } from "./bench.mjs";

const NAME = "nothing";
// As in its own performance test.
const FAST = {
  concurrentJobs: 24,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
  maxPoolSize: 26,
};

const { Logger, WorkerPreset, makeWorkerUtils, run } = await load("graphile-worker");

const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

async function enqueue() {
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  await serve(
    (payload) => utils.addJob(NAME, payload),
    (payloads) => utils.addJobs(payloads.map((payload) => ({ identifier: NAME, payload }))),
  );
}

async function work() {
  const worker = { connectionString: url, logger, ...FAST };
  const preset = { extends: [WorkerPreset], worker };
  const runner = await run({ preset, taskList: { [NAME]: handle } });
  await runner.promise;
}

await (process.argv[2] === "enqueue" ? enqueue() : work());

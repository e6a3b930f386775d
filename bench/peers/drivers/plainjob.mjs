// plainjob on Node: its queue over better-sqlite3 and its worker.

import { handle, load, poll, report, serve, url } from "./bench.mjs";

const TYPE = "nothing";

const { default: Database } = await load("better-sqlite3");
const plainjob = await load("plainjob");

const silent = { debug() {}, info() {}, warn() {}, error: console.error };
const database = new Database(url.replace("sqlite:///", ""));
const queue = plainjob.defineQueue({ connection: plainjob.better(database), logger: silent });
// It asks for NORMAL; the connection is its user's.
database.pragma("synchronous = FULL");

async function work() {
  // The worker's loop hardly ever lets a timer have its turn while there are jobs.
  const options = { queue, logger: silent, onCompleted: report };
  if (poll !== null) options.pollIntervall = poll * 1000;
  const worker = plainjob.defineWorker(TYPE, (job) => handle(JSON.parse(job.data)), options);
  await worker.start();
}

await (process.argv[2] === "enqueue"
  ? serve((payload) => queue.add(TYPE, payload), (payloads) => queue.addMany(TYPE, payloads))
  : work());

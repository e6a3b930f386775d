// plainjob on Node: its queue over better-sqlite3 and its worker.
//
// A driver like its Python neighbours; tally.py and till.py tell what the words mean.

import { existsSync, readFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const SIZE = 98;
const TOGETHER = 1000;
const TYPE = "nothing";

const now = () => process.hrtime.bigint();
const tell = (word, ...figures) => writeSync(1, `bench ${word} ${figures.join(" ")}\n`);

const { STOKER_BENCH_FILE, STOKER_BENCH_GO, STOKER_BENCH_POLL, STOKER_BENCH_MODULES } = process.env;
const require = createRequire(`${STOKER_BENCH_MODULES}/anything.js`);
const Database = require("better-sqlite3");
const plainjob = await import(pathToFileURL(require.resolve("plainjob")));

const silent = { debug() {}, info() {}, warn() {}, error: console.error };
const database = new Database(STOKER_BENCH_FILE);
const queue = plainjob.defineQueue({ connection: plainjob.better(database), logger: silent });
// It asks for NORMAL; the connection is its user's.
database.pragma("synchronous = FULL");

const starts = [];
let running = false;

async function handle(job) {
  const begun = now();
  const payload = JSON.parse(job.data);
  if (payload.startsWith("@")) {
    tell("started", begun - BigInt(payload.slice(1).trim()));
    return;
  }
  if (!running) await waitForTheStart();
  starts.push(now());
}

async function waitForTheStart() {
  tell("ready", process.pid);
  while (!existsSync(STOKER_BENCH_GO)) await sleep(5);
  const moment = BigInt(readFileSync(STOKER_BENCH_GO, "ascii").trim());
  while (now() < moment) await sleep(1);
  running = true;
}

let told = 0;
let toldAt = 0n;

// The worker's loop hardly ever lets a timer have its turn while there are jobs.
function report() {
  if (starts.length > told && now() - toldAt > 20_000_000n) {
    told = starts.length;
    toldAt = now();
    tell("count", process.pid, told, starts[told - 1]);
  }
}

async function work() {
  const options = { queue, logger: silent, onCompleted: report };
  if (STOKER_BENCH_POLL) options.pollIntervall = Number(STOKER_BENCH_POLL) * 1000;
  setInterval(report, 20);
  await plainjob.defineWorker(TYPE, handle, options).start();
}

async function enqueue() {
  tell("open");
  for await (const line of createInterface({ input: process.stdin })) {
    const [order, number] = line.trim().split(" ");
    if (order === "stamp") {
      queue.add(TYPE, `@${now()}`.padEnd(SIZE));
      tell("done");
      continue;
    }
    const count = Number(number);
    const payload = "x".repeat(SIZE);
    const begun = now();
    if (order === "many") {
      for (let done = 0; done < count; done += TOGETHER) {
        queue.addMany(TYPE, Array(Math.min(TOGETHER, count - done)).fill(payload));
      }
    } else {
      for (let done = 0; done < count; done += 1) queue.add(TYPE, payload);
    }
    tell("done", Number(now() - begun) / 1e9);
  }
  process.exit(0);
}

await (process.argv[2] === "enqueue" ? enqueue() : work());

// What drivers on Node share: tally.py and till.py once more, with the same words.

import { existsSync, readFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const SIZE = 98;
const TOGETHER = 1000;
const REPORT_NS = 20_000_000n;
const { STOKER_BENCH_URL, STOKER_BENCH_GO, STOKER_BENCH_POLL, STOKER_BENCH_MODULES } = process.env;

export const url = STOKER_BENCH_URL;
export const poll = STOKER_BENCH_POLL ? Number(STOKER_BENCH_POLL) : null;

const require = createRequire(`${STOKER_BENCH_MODULES}/anything.js`);
export const load = (name) => import(pathToFileURL(require.resolve(name)));

const now = () => process.hrtime.bigint();
export const tell = (word, ...figures) => writeSync(1, `bench ${word} ${figures.join(" ")}\n`);

let running = null;
let count = 0;
let last = 0n;
let told = 0;
let toldAt = 0n;

export async function handle(payload) {
  if (payload.startsWith("@")) {
    tell("started", now() - BigInt(payload.slice(1).trim()));
    return;
  }
  if (running !== true) await (running ??= waitForTheStart());
  count += 1;
  last = now();
}

async function waitForTheStart() {
  tell("ready", process.pid);
  while (!existsSync(STOKER_BENCH_GO)) await sleep(5);
  const moment = BigInt(readFileSync(STOKER_BENCH_GO, "ascii").trim());
  while (now() < moment) await sleep(1);
  running = true;
  setInterval(report, 20);
}

// Also called by drivers whose loop hardly ever lets a timer have its turn.
export function report() {
  if (count > told && now() - toldAt > REPORT_NS) {
    told = count;
    toldAt = now();
    tell("count", process.pid, count, last);
  }
}

function* portions(count, most, seconds) {
  const deadline = now() + BigInt(Math.round(seconds * 1e9));
  for (let done = 0; done < count && now() < deadline; done += most) {
    yield Math.min(most, count - done);
  }
}

export async function serve(one, many) {
  tell("open");
  const payload = "x".repeat(SIZE);
  for await (const line of createInterface({ input: process.stdin })) {
    const [order, count, seconds] = line.trim().split(" ");
    if (order === "stamp") {
      await one(`@${now()}`.padEnd(SIZE));
      tell("done");
      continue;
    }
    const begun = now();
    let done = 0;
    for (const portion of portions(Number(count), order === "many" ? TOGETHER : 1, Number(seconds))) {
      await (order === "many" ? many(Array(portion).fill(payload)) : one(payload));
      done += portion;
    }
    tell("done", Number(now() - begun) / 1e9, done);
  }
  process.exit(0);
}

// Worqr on Node, the original: as many cycles side by side as it is told to, for so many seconds.
// Its commands go out together wherever it lets them, since its client does so by itself.

import { load, tell, url } from "./bench.mjs";

const WARM_UP = 0.2;
const QUEUE = "q";

const { default: redis } = await load("redis");
const { default: { Worqr } } = await load("worqr");

// A permanent worker: nobody takes it for dead, however busy it is.
const connections = { data: redis.createClient(url), subscribe: redis.createClient(url) };
const peer = new Worqr(connections, { workerTimeout: -1 });
await peer.startWorker();
await peer.startWork(QUEUE);

async function repeat(until) {
  let done = 0;
  while (performance.now() < until) {
    await peer.enqueue(QUEUE, `task ${done}`);
    let process = null;
    while (process === null) process = await peer.dequeue(QUEUE);
    await peer.finishProcess(process.id);
    done += 1;
  }
  return done;
}

async function goRound(many, seconds) {
  const start = performance.now();
  const until = start + seconds * 1000;
  const done = await Promise.all(Array.from({ length: many }, () => repeat(until)));
  return (done.reduce((sum, each) => sum + each) * 1000) / (performance.now() - start);
}

const [many, seconds] = process.argv.slice(2).map(Number);
await goRound(many, WARM_UP);
tell("rate", await goRound(many, seconds));
process.exit(0);

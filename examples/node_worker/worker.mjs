// A worker in plain Node (18 or later): nothing to install, it speaks to Stoker over HTTP.
//
//   stoker serve --store sqlite:///jobs.db --http 127.0.0.1:8080
//   STOKER_URL=http://127.0.0.1:8080 node worker.mjs mail reports
//
// A handler is an async function from a payload to a result. Whatever it throws fails the try, and
// the job's own policy says whether there is another one. Ctrl-C lets running jobs end.

const url = process.env.STOKER_URL ?? "http://127.0.0.1:8080";
const token = process.env.STOKER_TOKEN;
const queues = process.argv.length > 2 ? process.argv.slice(2) : ["default"];
const concurrency = Number(process.env.CONCURRENCY ?? 4);
const ttl = 15;

const handlers = {
  async add({ a, b }) {
    return a + b;
  },
  async greet({ name }, { progress }) {
    await progress(0.5);
    if (!name) throw new TypeError("nobody to greet");
    return `hello ${name}`;
  },
};

async function ask(method, path, body, signal) {
  const headers = { "content-type": "application/json" };
  if (token) headers.authorization = `Bearer ${token}`;
  const answer = await fetch(url + path, { method, headers, body: JSON.stringify(body), signal });
  const told = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw Object.assign(new Error(`${told.code}: ${told.detail}`), told);
  return told;
}

async function perform(job) {
  const say = (verb, words) =>
    ask("POST", `/v1/jobs/${job.id}/${verb}`, { lease: job.lease, ...words });
  try {
    const handler = handlers[job.name];
    if (!handler) {
      await say("release", { delay: "1m", reason: `no handler for ${job.name} here` });
      return;
    }
    const result = await handler(job.payload, { progress: (p) => say("progress", { progress: p }) });
    await say("finish", { result: result ?? null });
    console.log(`job ${job.id} is done`);
  } catch (error) {
    if (error.code === "lease_lost") return; // it is somebody else's by now
    await say("fail", { error: String(error), kinds: [error.name] });
    console.log(`job ${job.id} failed: ${error.message}`);
  }
}

const { session } = await ask("POST", "/v1/sessions", {
  name: `node-${process.pid}`,
  pid: process.pid,
  queues,
  concurrency,
  ttl,
});
const beating = setInterval(
  () => ask("POST", `/v1/sessions/${session}/beat`, { ttl }).catch((e) => console.error(e.message)),
  (ttl * 1000) / 4,
);

const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => stopping.abort());
console.log(`serving ${queues.join(", ")}`);

const running = new Set();
while (!stopping.signal.aborted) {
  if (running.size >= concurrency) {
    await Promise.race(running);
    continue;
  }
  try {
    const wish = { queues, limit: concurrency - running.size, wait: 30, session };
    const { jobs } = await ask("POST", "/v1/claims", wish, stopping.signal);
    for (const job of jobs) {
      const work = perform(job).catch((e) => console.error(e.message));
      running.add(work);
      work.finally(() => running.delete(work));
    }
  } catch (error) {
    if (stopping.signal.aborted) break;
    if (error.code === "session_lost") process.exit(1); // whoever started us starts us again
    console.error(error.message);
    await new Promise((resume) => setTimeout(resume, 1000));
  }
}
await Promise.all(running);
clearInterval(beating);
await ask("DELETE", `/v1/sessions/${session}`);
console.log("bye");

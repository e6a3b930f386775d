// A worker in another language: it speaks JSON lines with a `stoker stdio` that it starts itself.
// On a real bus creators, workers and the processor would be strangers to each other.
//
// node examples/stdio_worker.mjs

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const folder = mkdtempSync(join(tmpdir(), "stoker-"));
const store = `sqlite:///${join(folder, "jobs.db")}`;
const stoker = process.env.STOKER ?? "stoker";
const processor = spawn(stoker, ["stdio", "--store", store], { stdio: ["pipe", "pipe", "inherit"] });

const WORKER = "7a1b0c9e-0000-4000-8000-000000000001";
const FILMS = [
  { uuid: "film-1", queue_name: "films", title: "Safety Last" },
  { uuid: "film-2", queue_name: "films", title: "Metropolis", priority: 9 },
  { uuid: "film-3", queue_name: "films", title: "Sunrise", priority: 0 },
];

function say(topic, payload) {
  const sender = { service_uuid: WORKER, service_name: "cutter", service_host: "here" };
  const message = { topic: `default/${topic}`, ...sender, created_at: now(), payload };
  processor.stdin.write(`${JSON.stringify(message)}\n`);
}

const now = () => new Date().toISOString();
const work = (verb, payload) => say(`job_queue/workers/${WORKER}/${verb}`, payload);

for (const film of FILMS) say("job_queue/add_job", film);
work("worker_idle", { queue_name: "films" });

let done = 0;
for await (const line of createInterface({ input: processor.stdout })) {
  const { topic, payload: job } = JSON.parse(line);
  console.log(`${topic.split("/").at(-1)}: ${job.title}`);
  work("job_accepted", { ...job, started_at: now() });
  work("worker_progress", { ...job, progress: { progress: 0.5, reel: 2 } });
  work("job_finished", { ...job, finished_at: now(), exitcode: 0, stdout: "cut\n", stderr: "" });
  done += 1;
  if (done === FILMS.length) processor.stdin.end();
}
const code = await new Promise((resolve) => {
  processor.exitCode === null ? processor.on("exit", resolve) : resolve(processor.exitCode);
});
console.log(`${done} films are cut, and the processor left with ${code}`);
rmSync(folder, { recursive: true });

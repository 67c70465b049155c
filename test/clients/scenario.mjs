// The scenario of scenario_test.go for the TypeScript SDK: node scenario.mjs MODULE FILE
import { pathToFileURL } from "node:url";

const { Hortus, HortusError } = await import(pathToFileURL(process.argv[2]).href);
const hortus = new Hortus();
const label = process.env.SCENARIO;

async function failure(what, call) {
  try {
    await call();
    console.log(`${what}: no error`);
  } catch (e) {
    if (!(e instanceof HortusError)) throw e;
    console.log(`${what}: ${e.kind}${e.status === 410 ? ", gone" : ""}, hint ${e.hint !== ""}`);
  }
}

const sandbox = await hortus.sandboxes.create({ isolation: "container", labels: { scenario: label } }, { idempotencyKey: label });
const again = await hortus.sandboxes.create({ isolation: "container", labels: { scenario: label } }, { idempotencyKey: label });
console.log(`created once: ${sandbox.id === again.id}, ${(await sandbox.info()).state}`);

await sandbox.writeFile("in/words.txt", "pear\näpple\n");
console.log(`read: ${JSON.stringify(await sandbox.readText("in/words.txt"))}`);
await sandbox.writeFile("in/large", new ReadableStream({
  start(controller) {
    for (let i = 0; i < 8; i++) controller.enqueue(new Uint8Array(100_000).fill(i));
    controller.close();
  },
}));
let size = 0;
for await (const piece of sandbox.readStream("in/large")) size += piece.length;
console.log(`streamed: ${size}, ${(await sandbox.stat("in/large")).size}`);
await sandbox.makeDir("in/dir");
await sandbox.makeDir("in/dir");
await sandbox.move("in/large", "in/dir/moved");
console.log(`list: ${(await sandbox.listDir("in", { depth: 2 })).map((f) => `${f.type} ${f.path}`).sort().join(", ")}`);
await sandbox.remove("in/dir");

const result = await sandbox.run(["sort", "words.txt"], { dir: "in", env: { LC_ALL: "C" } });
console.log(`run: ${JSON.stringify(result.stdout)}, exit ${result.exitCode}`);
let out = "", err = "";
const failed = await sandbox.run("i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo problem >&2; exit 3", {
  onStdout: (text) => (out += text), onStderr: (text) => (err += text),
});
console.log(`streams: ${out.split("\n").length} lines, ${out === failed.stdout && err === failed.stderr}, ${JSON.stringify(err)}, exit ${failed.exitCode}, lost ${failed.lostBytes}`);
console.log(`input: ${JSON.stringify((await sandbox.run(["tr", "a-z", "A-Z"], { stdin: "grüße\n" })).stdout)}`);
const cat = await sandbox.start(["cat"], { stdin: true });
await cat.write("one ");
await cat.write("two", { close: true });
console.log(`written: ${JSON.stringify((await cat.wait()).stdout)}, ${(await cat.info()).state}`);
const sleeper = await sandbox.start(["sleep", "1000"]);
const killed = await sleeper.kill();
console.log(`killed: ${killed.exec.state} ${killed.exec.exit.signal}`);
const stop = new AbortController();
await failure("stopped", () => sandbox.run("echo started; sleep 1000", { onStdout: () => stop.abort(), signal: stop.signal }));
const last = sandbox.command((await sandbox.commands())[0].id);
await last.wait();
console.log(`its end: ${(await last.info()).exit.signal}`);
console.log(`commands: ${(await sandbox.commands()).length}`);

await sandbox.runCode("x = 20");
const code = await sandbox.runCode("print('hello')\nx + 1");
console.log(`code: ${code.text} ${JSON.stringify(code.stdout)}`);
console.log(`code fails: ${(await sandbox.runCode("1 / 0")).error.name}`);

const fork = await sandbox.fork({ count: 2 });
await sandbox.writeFile("in/words.txt", "changed");
console.log(`fork: ${fork.sandboxes.length} of ${fork.result.children.length}, ${JSON.stringify(await fork.sandboxes[0].readText("in/words.txt"))}`);
console.log(`forks: ${(await hortus.sandboxes.list({ forksOf: sandbox.id })).length}, labels: ${(await hortus.sandboxes.list({ labels: { scenario: label } })).length}`);
for (const child of fork.sandboxes) await child.kill();
const snapshot = await sandbox.snapshot({ name: label });
const next = await hortus.sandboxes.create({ template: label, isolation: "container" });
console.log(`snapshot: ${snapshot.name === label}, ${JSON.stringify(await next.readText("in/words.txt"))}`);
await next.kill();
console.log(`removed: ${(await hortus.snapshots.remove(snapshot.id)).state}`);
try {
  console.log(`pause: ${(await sandbox.pause()).state}, ${(await sandbox.resume()).state}`);
} catch (e) {
  console.log(`pause: ${e.kind}`);
}

const run = await hortus.runs.create({ request: "Write a Python script that prints the first 5 primes", isolation: "container" });
const events = [];
let output = "";
for await (const e of hortus.runs.events(run.id)) {
  events.push(e);
  if (e.type === "output") output += atob(e.data.data);
}
console.log(`run: ${events.map((e) => e.type).filter((t) => ["created", "plan", "code", "verdict"].includes(t)).join(" ")}, ${events.at(-1).data.outcome}, ${JSON.stringify(output)}`);
console.log(`numbers: ${events.every((e, i) => i === 0 || e.seq > events[i - 1].seq)}`);
const seen = [];
for await (const e of hortus.tasks.events(run.id)) {
  seen.push(e.seq);
  if (seen.length === 3) break;
}
for await (const e of hortus.tasks.events(run.id, { after: seen[2] })) seen.push(e.seq);
console.log(`resumed: ${JSON.stringify(seen) === JSON.stringify(events.map((e) => e.seq))}`);
let late = 0;
for await (const _ of hortus.tasks.events(run.id, { after: seen.at(-1) })) late++;
console.log(`after the last: ${late}`);

const plan = await hortus.plans.create({ task: { request: "1. Fix it", repo: { url: "https://127.0.0.1:1/none.git", author: { name: "Ada", email: "ada@example.org" } } } });
const steps = [];
for await (const e of hortus.plans.events(plan.id)) steps.push(e.type);
const ended = await hortus.plans.get(plan.id);
console.log(`plan: ${steps[0]} ${steps.at(-1)}, ${ended.state}, ${ended.outcome}, listed ${[await hortus.plans.list({ all: true }), await hortus.plans.list(), await hortus.plans.workstreams()].map((l) => l.some((p) => p.id === plan.id))}`);
await failure("no plan", () => hortus.plans.cancel("p0000000000000000000"));

await failure("not found", () => hortus.sandboxes.get("i0000"));
await failure("no file", () => sandbox.readFile("none"));
await failure("invalid", () => hortus.sandboxes.create({ isolation: "nosuch" }));
await failure("no ID", () => hortus.tasks.get(".."));
await failure("unauthenticated", () => new Hortus({ apiKey: "e2b_" + "0".repeat(40) }).info());
await failure("no key", () => new Hortus({ apiKey: "" }));
await failure("no URL", () => new Hortus({ url: "ftp://x" }));
console.log(`kill: ${(await sandbox.kill()).proof.left} left`);
await failure("ended", () => sandbox.run(["true"]));

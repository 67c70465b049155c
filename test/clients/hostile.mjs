// The calls of hostile_test.go with the TypeScript SDK: node hostile.mjs MODULE
import { pathToFileURL } from "node:url";

const { Hortus, Sandbox } = await import(pathToFileURL(process.argv[2]).href);
const host = process.env.HORTUS_HOST;
const all = async (items) => {
  for await (const _ of items);
};
const calls = {
  info: (h) => h.info(),
  list: (h) => h.sandboxes.list(),
  events: (h) => all(h.tasks.events("t1")),
  sandbox: (h) => h.sandboxes.get("i1"),
  file: async (h) => (await h.sandboxes.get("i1")).readFile("x"),
  stream: async (h) => all((await h.sandboxes.get("i1")).readStream("x")),
  output: async (h) => (await h.sandboxes.get("i1")).command("x1").wait(),
  code: async (h) => (await h.sandboxes.get("i1")).runCode("1"),
};
for (const test of process.argv.slice(3)) {
  const [name, call] = test.split("/");
  try {
    await calls[call](new Hortus({ url: `${host}/${name}`, patienceMs: 200 }));
    console.log(`${test}: no error`);
  } catch (e) {
    console.log(`${test}: ${e.kind}: ${e.message}`);
  }
}
for (const call of ["info", "events"]) {
  try {
    await calls[call](new Hortus({ url: `${host}/silent`, timeoutMs: 20, patienceMs: 200 }));
  } catch (e) {
    console.log(`silent/${call}: ${e.kind}`);
  }
}
const stop = new AbortController();
setTimeout(() => stop.abort(), 50);
try {
  await all(new Hortus({ url: `${host}/silent` }).tasks.events("t1", { signal: stop.signal }));
} catch (e) {
  console.log(`canceled: ${e.kind}`);
}

// The calls of waiting_test.go with the TypeScript SDK: node waiting.mjs MODULE
import { pathToFileURL } from "node:url";

const { Hortus } = await import(pathToFileURL(process.argv[2]).href);
const hortus = new Hortus();
const onWait = (w) => console.log(`waits for ${w.cause}: ${w.why}`);
const fails = async (name, call) => {
  try {
    await call();
  } catch (e) {
    console.log(`${name}: ${e.kind} ${e.status}${name === "away" || name === "gone" ? "" : ` ${e.retryAfterMs}`}`);
  }
};
const sandbox = await hortus.sandboxes.create({}, { onWait });
console.log(`created ${sandbox.id}`);
console.log(`forked ${(await sandbox.fork({}, { onWait })).sandboxes[0].id}`);
console.log(`resumed ${(await sandbox.resume({ onWait })).state}`);
console.log(`not told ${(await hortus.sandboxes.create()).id}`);
console.log(`at once ${(await hortus.sandboxes.create({ template: "at-once" }, { onWait })).id}`);
for (const template of ["in-vain", "cut"]) await fails(template, () => hortus.sandboxes.create({ template }, { onWait }));
const seen = [];
for await (const e of hortus.tasks.events("t1")) seen.push(e.seq);
console.log(`events [${seen.join(", ")}]`);
const all = async (events) => {
  for await (const _ of events);
};
await fails("away", () => all(new Hortus({ patienceMs: 100 }).tasks.events("t2")));
await fails("gone", () => all(hortus.tasks.events("t3")));

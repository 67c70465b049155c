// Connects repositories in one browser, up to a first verified task. What it is told comes as JSON on stdin, as in console.mjs.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const scene = JSON.parse(readFileSync(0, "utf8"));
const require = createRequire(join(scene.modules, "x"));
const { chromium } = require("playwright-core");
const axeSource = readFileSync(join(scene.modules, "axe-core/axe.min.js"), "utf8");

const began = Date.now();
const step = (name) => console.log(`${((Date.now() - began) / 1000).toFixed(1)} s  ${name}`);
const want = (ok, what) => {
  if (!ok) throw new Error(what);
};
const browser = await chromium.launch({
  executablePath: scene.chromium,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"],
});
const context = await browser.newContext({ viewport: { width: 1200, height: 850 } });
context.setDefaultTimeout(60_000);
const page = await context.newPage();
const wrong = [];
let expectFailures = false;
page.on("pageerror", (e) => wrong.push(`error in the page: ${e.stack}`));
page.on("console", (m) => {
  if (/Content Security Policy/.test(m.text())) wrong.push(`against the policy: ${m.text()}`);
  else if (m.type() === "error" && !expectFailures) wrong.push(`console: ${m.text()} ${m.location().url}`);
});
page.on("request", (r) => {
  if (new URL(r.url()).origin !== scene.url) wrong.push(`a request to ${r.url()}`);
});

/** Looks at a page: it is no program and breaks no rule. In the soak tier, and where thorough is true, axe and the width of a telephone too. */
async function look(name, thorough = scene.soak) {
  want(wrong.length === 0, `${name}: ${wrong.join("\n")}`);
  want(!(await page.evaluate(() => "pwned" in globalThis)), `${name}: markup became a program`);
  if (thorough) await examine(name);
  step(name);
}
async function examine(name) {
  await page.evaluate(axeSource);
  const found = await page.evaluate(async () => (await globalThis.axe.run(document, { resultTypes: ["violations"] })).violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(" ") + " " + n.failureSummary).join("; ")}`));
  want(found.length === 0, `axe, ${name}: ${found.join("\n")}`);
  await page.setViewportSize({ width: 390, height: 844 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  await page.setViewportSize({ width: 1200, height: 850 });
  want(wide <= 390, `${name} is ${wide} pixels wide on a telephone`);
}
const heading = (name) => page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
const go = (path) => page.evaluate((p) => void (location.hash = p), path);
const api = async (key, method, path) => {
  const r = await fetch(scene.url + path, { method, headers: { "X-API-Key": key } });
  return { status: r.status, body: await r.json() };
};
const button = (name) => page.getByRole("button", { name, exact: true });
async function signIn(key) {
  await page.getByLabel("API key").fill(key);
  await button("Sign in").click();
  await heading("Home");
}
async function firstTask() {
  await page.getByLabel("Author of the commits: name").fill("Ada");
  await page.getByLabel("Author of the commits: email").fill("ada@example.org");
  await button("Start the task").click();
  await page.getByText("Finished: verified", { exact: true }).waitFor();
}

try {
  await page.goto(scene.url);
  await signIn(scene.admin);

  // What is markup elsewhere is text here.
  await page.getByRole("link", { name: "Repositories" }).click();
  await page.getByRole("link", { name: scene.evil, exact: true }).waitFor();
  await look("repositories of hostile names", true);
  expectFailures = true; // its commit does not exist
  await go(`#/repository/${scene.evilRepository}`);
  await heading(scene.evil);
  await page.getByText(scene.evil).nth(4).waitFor();
  await look("a repository whose texts are markup");
  expectFailures = false;

  // A forge: the token is tested at once. One that the forge does not know is kept nowhere.
  await go("#/repositories");
  await page.getByRole("link", { name: "Connect a repository" }).click();
  await heading("Connect a repository");
  await look("form");
  await page.getByLabel("Address of the repository").fill(scene.forge);
  await page.getByLabel("Token").fill("token-of-nobody");
  await button("Test the access").click();
  await page.getByText("rejects the token").first().waitFor();
  want((await button("Connect").count()) === 0, "it can be connected without a right");
  want((await api(scene.admin, "GET", "/v1/secrets")).body.length === 0, "a token that is of no use is kept");
  await look("a token of nobody");
  await page.getByLabel("Token").fill(scene.reads);
  await button("Test the access").click();
  await page.getByText("refuses a push with this token").waitFor();
  await page.getByText("Create a token with the scope write:repository of a user who may write to the repository.").waitFor();
  want((await page.getByRole("list", { name: "Rights" }).getByText("missing", { exact: true }).count()) === 2, "not exactly push and merge request are missing");
  await look("a token that only reads", true);
  await page.getByLabel("Token").fill(scene.writes);
  await button("Test the access").click();
  await page.getByText("Everything that Hortus needs is there.").waitFor();
  await look("a token with all rights");
  await button("Connect").click();
  await heading("shop");

  // The gate: a dry run comes before the choice.
  await page.getByText("suggested", { exact: true }).waitFor();
  want(await button("Save as gate").isDisabled(), "a gate can be saved that has not run");
  await page.getByText(scene.evil.replaceAll("/", "|")).waitFor(); // the name of a file
  await look("gates that were found");
  await page.getByLabel("Another command").check();
  await page.getByLabel("Another gate command").fill(`printf '%s\\n' '${scene.evil}'; exit 3`);
  await button("Dry run").click();
  await page.getByText("exit 3").first().waitFor();
  await page.getByText(scene.evil).first().waitFor();
  await look("hostile output of a gate");
  await page.getByLabel("Another gate command").fill("python3 -m unittest discover");
  await button("Dry run").click();
  await page.getByText("test_median_of_an_even_number").first().waitFor();
  await button("Save as gate").click();
  await page.getByText("Saved:").waitFor();
  await look("gate", true);

  // The set-up, a document, the first task from what the dry run found.
  await page.getByRole("link", { name: "Next: Set-up" }).click();
  await button("Set up now").click();
  await page.getByText("prepared", { exact: true }).waitFor();
  await look("set-up");
  await page.getByRole("link", { name: "Next: Documents" }).click();
  await page.getByText("Add a document").click();
  await page.getByLabel("Name (lower-case").fill("constraints");
  await page.getByLabel("Text").fill(`# ${scene.evil}`);
  await button("Store").click();
  await page.getByText("constraints, version 1").waitFor();
  await look("documents");
  await page.getByRole("link", { name: "Next: First task" }).click();
  want((await page.getByLabel("Request").inputValue()).includes("test_median_of_an_even_number"), "the failing test is not suggested");
  await page.getByLabel("When it is verified").selectOption("mr");
  await look("first task", true);
  await firstTask();
  await page.getByText(`${scene.forge.replace(".git", "")}/pulls/1`).first().waitFor();
  await look("first task of the forge");

  // A repository at a plain git server, for reading.
  await go("#/connect");
  await heading("Connect a repository");
  await page.getByLabel("Address of the repository").fill(scene.bare);
  await page.getByLabel("Name", { exact: true }).fill("bare");
  await button("Test the access").click();
  await page.getByText("This is a git server without merge requests.").waitFor();
  await look("rights at a git server");
  await button("Connect").click();
  await heading("bare");
  if (scene.soak) {
    await page.getByRole("link", { name: "First task" }).first().click();
    await button("Fix a bug").click();
    await page.getByLabel("Request").fill("Fix the failing test");
    await firstTask();
    step("first task of the bare repository");
  }
  await go("#/repositories");
  await page.getByRole("link", { name: "bare", exact: true }).waitFor();
  await look("repositories");

  // Another account: the address of a repository opens nothing, and neither does its ID in the API. The control: the admin opens it.
  const { body: rows } = await api(scene.admin, "GET", "/v1/repositories");
  const mine = rows.find((r) => r.name === "shop");
  want((await api(scene.admin, "GET", `/v1/repositories/${mine.id}/detected`)).status === 200, "the admin does not see it");
  for (const path of ["", "/detected"]) want((await api(scene.user, "GET", `/v1/repositories/${mine.id}${path}`)).status === 404, `another account sees ${path}`);
  await page.locator("details.account > summary").click();
  await button("Sign out").click();
  await signIn(scene.user);
  expectFailures = true;
  await go(`#/repository/${mine.id}`);
  await page.getByText("unknown repository").waitFor();
  want(!(await page.content()).includes(mine.url), "the address is shown to another account");
  await go("#/repositories");
  await page.getByText("No repository is connected.").waitFor();
  step("another account");
  console.log("all steps passed");
} catch (e) {
  console.log(`at ${page.url()}\n${(await page.locator("body").innerText().catch(() => "")).slice(0, 4000)}`);
  console.log(wrong.join("\n"));
  throw e;
} finally {
  await browser.close();
}

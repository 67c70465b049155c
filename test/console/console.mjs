// Goes through the console in one browser. What it is told comes as JSON on stdin. It prints a line for each step that passed.
import { readFileSync } from "node:fs";
import { api, Browser, run, scene, step, want } from "./harness.mjs";

const browser = await Browser.open();
const { page, context } = browser;
const heading = (name) => page.getByRole("heading", { level: 1, name }).waitFor();
async function signIn(key) {
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
}

await run(browser, async () => {
  // Sign-in, and the figures of the first page.
  await page.goto(scene.url);
  await page.getByLabel("API key").waitFor();
  const figures = await page.evaluate(() => {
    const scripts = performance.getEntriesByType("resource").filter((r) => r.name.endsWith(".js"));
    return {
      script: scripts.reduce((n, r) => n + r.encodedBodySize, 0),
      paint: Math.round(performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0),
      interactive: Math.round(performance.now()),
    };
  });
  console.log(`figures: ${figures.script} bytes of compressed script, first paint after ${figures.paint} ms, usable within ${figures.interactive} ms`);
  want(figures.script > 0 && figures.script < 200 << 10, "the first page is too large");
  await browser.look("sign-in");
  browser.failing = true;
  await signIn("e2b_" + "0".repeat(40));
  await page.getByRole("alert").getByText("unknown API key").waitFor();
  await signIn(scene.admin);
  await heading("Home");
  browser.failing = false; // the browser may report the refusal after the page shows it
  await page.getByRole("link", { name: scene.evil }).first().waitFor();
  const cookies = await context.cookies();
  want(cookies.length === 1 && cookies[0].httpOnly && cookies[0].sameSite === "Strict", `cookies: ${JSON.stringify(cookies)}`);
  await browser.look("home");

  // A run from the form to verified.
  await page.getByRole("link", { name: "New task" }).click();
  await heading("New task");
  await page.getByLabel("A change of a repository").check();
  await browser.look("form for a repository");
  await page.getByLabel("A program from a sentence").check();
  await page.getByLabel("Request").fill("Write a Python script that prints the first 5 primes");
  await browser.look("form");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByText("Finished: verified", { exact: true }).waitFor();
  await page.getByText("2, 3, 5, 7, 11").first().waitFor();
  await browser.look("run");
  await page.getByRole("link", { name: "Program" }).click();
  await page.getByRole("heading", { name: "Attempt 1" }).waitFor();
  await browser.look("program");
  // The same program again, which no model writes.
  await page.getByRole("button", { name: "Run attempt 1 again" }).click();
  await page.waitForFunction(() => /^#\/task\/[^/]+$/.test(location.hash));
  await page.getByText("Finished: verified", { exact: true }).waitFor();
  step("the program again");

  // The command palette: by keys alone.
  await page.keyboard.press("Control+k");
  await page.keyboard.type("fix failing");
  await page.getByRole("option", { name: "task Fix the failing test" }).waitFor();
  await browser.look("palette");
  await page.getByRole("combobox").fill("sandboxes");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Sandboxes" }).waitFor();
  await page.getByRole("button", { name: "Go to" }).click();
  await page.keyboard.type("no such thing");
  await page.getByText("Nothing has this name.").waitFor();
  await page.keyboard.press("Escape");
  want((await page.getByRole("dialog").count()) === 0, "the palette is still open");
  step("palette by keys");

  // A task on a repository: timeline, changes, patch, gates.
  await browser.go(`#/task/${scene.repoTask}`);
  await page.getByText("Finished: verified", { exact: true }).waitFor();
  await browser.look("task");
  await page.getByRole("link", { name: "Changes" }).click();
  await page.getByRole("button", { name: "Side by side" }).click();
  await page.getByRole("columnheader", { name: "Old text" }).first().waitFor();
  await browser.look("changes side by side");
  await page.getByRole("button", { name: "Inline" }).click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download patch" }).last().click()]);
  want(readFileSync(await download.path(), "utf8").startsWith("diff --git "), "the patch is no patch");
  await browser.look("changes inline");
  await page.getByRole("link", { name: "Gates" }).click();
  await page.getByText("python3 -m unittest").first().waitFor();
  await browser.look("gates");

  if (scene.manyTask) {
    const start = Date.now();
    await browser.go(`#/task/${scene.manyTask}`);
    await page.getByText("said 9999").waitFor();
    const shown = Date.now() - start;
    const { used, entries } = await page.evaluate(() => ({ used: performance.memory.usedJSHeapSize, entries: document.querySelectorAll("ol.log > li").length }));
    want(entries === 4000, `${entries} entries`);
    const from = Date.now();
    await page.evaluate(() => scrollTo({ top: document.body.scrollHeight, behavior: "instant" }));
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    console.log(`figures: 10,000 events after ${shown} ms, ${Math.round(used / 1e6)} MB of memory of the script, ${Date.now() - from} ms for a jump to the end`);
    step("task of 10,000 events");
  }

  // What is markup elsewhere is text here.
  await browser.go(`#/task/${scene.evilTask}`);
  await heading(scene.evil.slice(0, 60));
  await page.getByText("Worked for").click();
  await page.locator("ol.log details details > summary").click();
  await page.getByText(scene.evil).nth(6).waitFor();
  await browser.look("task of markup");
  await browser.go("#/tasks");
  await heading("Tasks");
  await page.getByRole("link", { name: scene.evil }).first().waitFor();
  await browser.look("tasks");
  await browser.go("#/sandboxes");
  await page.getByText(scene.evil).first().waitFor();
  await browser.look("sandboxes of markup");
  await browser.go(`#/sandbox/${scene.evilBox}/files`);
  await page.getByRole("button", { name: scene.evil.replaceAll("/", "|") }).click();
  await page.getByLabel(/Content of/).waitFor();
  await browser.look("file of markup");
  await browser.go(`#/sandbox/${scene.evilBox}/commands`);
  await page.getByRole("button", { name: "Output" }).first().click();
  await page.getByRole("region", { name: "Output" }).getByText(scene.evil).waitFor();
  await browser.look("commands of markup");

  // A sandbox: a terminal whose network is cut, a file, a fork.
  await browser.go("#/sandboxes");
  await page.getByText("Isolation, limits, outgoing connections").click();
  await page.getByLabel("Isolation").selectOption("container");
  await page.getByLabel("Memory in MiB").fill("256");
  await browser.look("sandbox form");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByText("Connected. The shell").waitFor();
  const id = new URL(page.url()).hash.split("/")[2];
  await page.getByRole("button", { name: "Text log" }).click();
  const log = page.getByRole("region", { name: "What the shell wrote, as text" });
  await log.getByText("$").waitFor();
  const type = async (text) => {
    await page.getByLabel("Terminal input").focus();
    await page.keyboard.type(text + "\n");
  };
  await type("echo first-$((20+22)); stty size");
  await log.getByText("first-42").waitFor();
  const size = async () => (await log.innerText()).match(/^\d+ \d+$/gm)?.at(-1);
  const before = await size();
  await page.setViewportSize({ width: 800, height: 600 });
  for (let now = before; now === before; now = await size()) {
    await type("stty size");
    await page.waitForTimeout(200);
  }
  await page.setViewportSize({ width: 1200, height: 850 });
  browser.failing = true;
  await type("for i in 1 2 3 4 5 6; do echo tick-$((i*11)); sleep 0.2; done; echo end-$((40+2))");
  await log.getByText("tick-11").waitFor();
  await context.setOffline(true);
  await page.waitForTimeout(300);
  await context.setOffline(false);
  await log.getByText("end-42").waitFor();
  browser.failing = false;
  const text = await log.innerText();
  for (const mark of ["first-42", "tick-11", "tick-33", "tick-66", "end-42"]) want(text.split(mark).length === 2, `${mark} is there ${text.split(mark).length - 1} times: ${text}`);
  // Another page and back: the shell is the same, and nothing is doubled.
  await page.getByRole("link", { name: "Ports" }).click();
  await browser.look("ports");
  await page.getByRole("link", { name: "Terminal", exact: true }).click();
  await page.getByRole("button", { name: "Text log" }).click();
  await log.getByText("end-42").waitFor();
  want((await log.innerText()).split("first-42").length === 2, "the output is doubled");
  await browser.look("terminal");

  await page.getByRole("link", { name: "Files" }).click();
  await page.getByLabel("Name of a new file or directory").fill("note.py");
  await page.getByRole("button", { name: "New file" }).click();
  await page.getByRole("button", { name: /^note\.py/ }).click();
  await page.getByLabel("Content of /workspace/note.py").click();
  await page.keyboard.type("print(6 * 7)");
  await browser.look("editor");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("/workspace/note.py is saved.").waitFor();
  await page.getByRole("link", { name: "Commands" }).click();
  await page.getByLabel("Command for the shell").fill("python3 note.py; echo seen-inside");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("region", { name: "Output" }).getByText("42\nseen-inside").waitFor();
  await page.getByLabel("Command for the shell").fill("python3 -c 'x = bytearray(1 << 30)'");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("exit 137", { exact: true }).waitFor();
  step("the memory limit of the form");

  // A program waits for a person, here on another page.
  const ask = await api(scene.admin, "POST", "/v1/sandboxes", { isolation: "container", egress: { ask: true } });
  const caller = await api(scene.admin, "POST", `/v1/sandboxes/${ask.id}/execs`, { args: ["python3", "-c", "import urllib.request; urllib.request.urlopen('https://api.example.org/')"] });
  await browser.go("#/");
  const answer = page.getByRole("button", { name: "Deny api.example.org:443" });
  await answer.waitFor();
  await browser.look("home with a connection that waits");
  await answer.click();
  await answer.waitFor({ state: "detached" });
  await browser.go(`#/sandbox/${ask.id}/network`);
  await page.getByText("denied").first().waitFor();
  await browser.look("network");
  for (let row = {}; row.state !== "exited"; ) {
    row = await api(scene.admin, "GET", `/v1/sandboxes/${ask.id}/execs/${caller.id}`);
    want(row.state !== "exited" || row.exit.code !== 0, "the connection was denied, and the program went on");
  }

  await browser.go(`#/sandbox/${id}`);
  await page.getByRole("button", { name: "Fork" }).click();
  await page.waitForFunction((old) => !location.hash.includes(old) && location.hash.startsWith("#/sandbox/"), id);
  await page.getByText("Details").click();
  await page.getByRole("link", { name: id }).waitFor();
  browser.failing = true; // the terminal may ask for output while the sandbox ends
  await page.getByRole("button", { name: "Destroy" }).click();
  await page.getByRole("button", { name: "Destroy it and its files" }).click();
  await page.getByText("This sandbox has ended").waitFor();
  await browser.look("sandbox that has ended");
  browser.failing = false;

  // In the dark.
  await page.emulateMedia({ colorScheme: "dark" });
  for (const path of ["#/", `#/task/${scene.repoTask}/changes`, `#/sandbox/${id}`].slice(0, scene.soak ? 3 : 2)) {
    await browser.go(path);
    await page.locator("main h1").waitFor();
    await page.waitForTimeout(300);
    await browser.look(`dark: ${path}`);
  }
  await page.emulateMedia({ colorScheme: "light" });

  // Sign out, and in as another account, which sees nothing of the first one.
  await page.locator("summary", { hasText: "default" }).click();
  await browser.look("account");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("API key").waitFor();
  want((await context.cookies()).length === 0, "the cookie is left");
  await signIn(scene.user);
  await page.locator("summary", { hasText: "user" }).waitFor();
  browser.refused.push(id);
  await browser.go(`#/sandbox/${id}`);
  await page.getByRole("alert").getByText("unknown sandbox").waitFor();
  await browser.go("#/tasks");
  await page.getByText("There is no task yet").waitFor();
  await browser.look("empty list");
  await browser.go("#/nowhere");
  await heading("No such page");
  await browser.look("no such page");

  // The key is revoked: the session has ended at once.
  browser.failing = true;
  await api(scene.admin, "DELETE", `/v1/keys/${scene.userId}`);
  await browser.go("#/sandboxes");
  await page.getByText("Your session has ended").waitFor();
  step("signed out by the revocation of the key");
});

// Steers tasks and a sandbox in one browser: comments that become a task, a merge request, a cancellation, a connection that waits, a restart.
import { readFileSync } from "node:fs";
import { Browser, api, run, scene, step, want } from "./harness.mjs";

const b = await Browser.open();
const { page } = b;
const button = (name) => page.getByRole("button", { name, exact: true });
const idOf = () => new URL(page.url()).hash.split("/")[2];
const author = { name: "Ada", email: "ada@example.org" };
const verified = () => page.getByText("Finished: verified", { exact: true }).waitFor();

await run(b, async () => {
  await b.signIn(scene.admin);

  // A task on a repository of a forge, from the form to verified.
  await page.getByRole("link", { name: "New task" }).click();
  await page.getByLabel("A change of a repository").check();
  await page.getByLabel("Request").fill("Fix the failing test");
  await page.getByLabel("Repository", { exact: true }).fill(scene.forge);
  await page.getByLabel("Gate: the command that decides").fill("python3 -m unittest");
  await page.getByLabel("Author of the commits: name").fill(author.name);
  await page.getByLabel("Author of the commits: email").fill(author.email);
  await button("Start").click();
  await verified();
  const first = idOf();
  step("from the form to verified");

  // A comment on a line. It survives a reload, is in another tab, and becomes the request of a follow-up task.
  await page.getByRole("link", { name: "Changes" }).click();
  const lines = page.getByRole("button", { name: /^Comment on line/ });
  await lines.first().focus();
  for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowDown");
  const place = await page.evaluate(() => document.activeElement?.getAttribute("aria-label"));
  await page.keyboard.press("Enter");
  await page.keyboard.type("Say here why.");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("heading", { name: "1 comment for the agent" }).waitFor();
  want((await page.evaluate(() => document.activeElement?.getAttribute("aria-label"))) === place, "the keyboard is elsewhere after a comment");
  await page.reload();
  await page.getByRole("heading", { name: "1 comment for the agent" }).waitFor();
  await b.look("comment");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download patch" }).last().click()]);
  const patch = readFileSync(await download.path(), "utf8");
  await page.getByRole("link", { name: "Start a follow-up task" }).click();
  await page.getByText("has the patch of the earlier result as a document").waitFor();
  const request = await page.getByLabel("Request").inputValue();
  const [, line, path] = place.match(/^Comment on line (\d+)(?: before the change)? of (.*)$/);
  want(request.includes("Fix the failing test") && request.includes(`${path}, line ${line}`) && /\n> .*\nSay here why\.$/.test(request), `the message: ${request}`);
  want((await page.getByLabel("Gate: the command that decides").inputValue()) === "python3 -m unittest", "the form lost the gate");
  await b.look("form of a follow-up task");
  await button("Start").click();
  await page.waitForFunction((old) => location.hash.startsWith("#/task/") && !location.hash.includes(old), first);
  const made = await api(scene.admin, "GET", `/v1/tasks/${idOf()}`);
  want(made.create.request === request && made.create.repo.context[0].text === patch, `the follow-up: ${JSON.stringify(made.create)}`);
  want((await page.evaluate((id) => localStorage.getItem(`hortus-comments-${id}`), first)) === null, "the comments were sent, and are still there");
  step("comments that become a task");

  // It is canceled, and says what was done.
  await b.go("#/new");
  const slow = await api(scene.admin, "POST", "/v1/tasks", { request: "Wait", sandbox: { isolation: "container" }, repo: { url: scene.forge, verify: "sleep 1000", author } });
  await b.go(`#/task/${slow.id}`);
  await button("Cancel task").click();
  await button("Cancel it now").click();
  await page.getByRole("heading", { name: "Receipt of the cancellation" }).waitFor();
  await page.getByText("0 processes left.").waitFor();
  await b.look("receipt");

  // The result of the first task is delivered to the forge.
  await b.go(`#/task/${first}`);
  await button("Open a merge request").click();
  await page.getByText(/^Merge request for \S+: http/).waitFor();
  const pulls = await (await fetch(`${new URL(scene.forge).origin}/api/v1/repos/garden/shop/pulls`, { headers: { Authorization: `token ${scene.token}` } })).json();
  want(pulls.length === 1 && pulls[0].head.ref.startsWith("hortus/"), `the forge has ${JSON.stringify(pulls)}`);
  await b.look("delivered");
  // With the old values in the form: from now on a follow-up starts from the pushed branch.
  await page.getByRole("link", { name: "Run again" }).click();
  await page.getByText("The values are those of").waitFor();
  want((await page.getByLabel("Request").inputValue()) === "Fix the failing test" && (await page.getByLabel("Repository", { exact: true }).inputValue()) === scene.forge, "the form has other values");
  step("delivered, and again with changes");

  // A program waits for a person, who allows it on the page.
  const box = await api(scene.admin, "POST", "/v1/sandboxes", { isolation: "container", egress: { ask: true } });
  await b.go(`#/sandbox/${box.id}/commands`);
  await page.getByText("No command has run here.").waitFor();
  await api(scene.admin, "POST", `/v1/sandboxes/${box.id}/execs`, { args: ["python3", "-c", `import urllib.request; print(urllib.request.urlopen('https://example.com:${scene.outside}/').read().decode())`] });
  // The command of another client is there without a reload.
  await page.getByRole("listitem").getByText("running", { exact: true }).waitFor();
  await page.getByRole("link", { name: /^Network/ }).click();
  await button(`Allow example.com:${scene.outside}`).click();
  await page.getByText("allowed", { exact: true }).first().waitFor();
  await page.getByRole("link", { name: "Commands" }).click();
  await page.getByText("exit 0", { exact: true }).waitFor();
  await button("Output").click();
  await page.getByRole("region", { name: "Output" }).getByText("an answer from far away").waitFor();
  await b.sound("connection allowed while the program waits");

  // A program with a screen, through a resize.
  await page.getByRole("link", { name: "Terminal", exact: true }).click();
  await page.getByText("Connected. The shell").waitFor();
  await button("Text log").click();
  const log = page.getByRole("region", { name: "What the shell wrote, as text" });
  await page.getByLabel("Terminal input").focus();
  await page.keyboard.type("top -d 1\n");
  await log.getByText("load average").first().waitFor();
  await page.setViewportSize({ width: 800, height: 600 });
  await page.setViewportSize({ width: 1200, height: 850 });
  b.failing = true;
  await b.context.setOffline(true);
  await page.waitForTimeout(200);
  await b.context.setOffline(false);
  b.failing = false;
  await page.getByText("Connected. The shell").waitFor();
  await page.getByLabel("Terminal input").focus();
  await page.keyboard.type("q");
  // What is typed before top has ended is lost: top discards it.
  await page.waitForFunction((el) => /\$\s*$/.test(el.textContent), await log.elementHandle());
  await page.keyboard.type("echo left-$((40+2))\n");
  await log.getByText("left-42").waitFor();
  await b.sound("top");

  await button("Pause").click();
  await page.getByText("The sandbox is paused").waitFor();
  await button("Resume").click();
  await button("Snapshot").click();
  await page.getByText(/^Snapshot .* was saved/).waitFor();
  await b.sound("pause, resume, snapshot");

  // Another tab shows the same, and signs out with the first one.
  const second = await b.tab();
  await second.goto(`${scene.url}/#/task/${first}`);
  await second.getByText("Finished: verified", { exact: true }).waitFor();
  const entries = await second.locator("ol.log > li").count();

  // The daemon restarts while pages are open: nothing is lost or doubled.
  b.failing = true;
  await b.go("#/tasks");
  await page.getByRole("heading", { level: 1, name: "Tasks" }).waitFor();
  const restarted = await fetch(`${scene.control}/restart`, { method: "POST" });
  want(restarted.ok, `restart: ${restarted.status}`);
  const later = await api(scene.admin, "POST", "/v1/runs", { request: "Write a Python script that prints the first 5 primes" });
  await page.locator(`a[href="#/task/${later.id}"]`).first().waitFor();
  await second.bringToFront();
  await second.evaluate((p) => void (location.hash = p), `#/task/${later.id}`);
  await second.getByText("Finished: verified", { exact: true }).waitFor();
  want((await second.getByText("Finished: verified", { exact: true }).count()) === 1, "an event is there twice");
  await second.evaluate((p) => void (location.hash = p), `#/task/${first}`);
  await second.getByText("Finished: verified", { exact: true }).waitFor();
  want((await second.locator("ol.log > li").count()) === entries, "events are lost or doubled by the restart");
  step("the daemon restarted");
  await page.bringToFront();
  await page.locator("summary", { hasText: "default" }).click();
  await button("Sign out").click();
  await page.getByLabel("API key").waitFor();
  await second.bringToFront();
  await second.getByLabel("API key").waitFor();
  want(b.wrong.length === 0, b.wrong.join("\n"));
  step("signed out in both tabs");
});

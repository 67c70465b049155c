// Goes through what the console has of sandboxes: the tree, usage, templates, ports, the browser inside. What it is told comes as JSON
// on stdin. It prints a line for each step that passed.
import { api, Browser, chromium, run, scene, step, want } from "./harness.mjs";

const browser = await Browser.open();
const { page, context } = browser;
const send = (key, method, path, body) => fetch(scene.url + path, { method, headers: { "X-API-Key": key }, body: body && JSON.stringify(body) });

await run(browser, async () => {
  await browser.signIn(scene.admin);

  // Fork, snapshot, and the tree of both.
  const box = await api(scene.admin, "POST", "/v1/sandboxes", { isolation: "container", ttlMs: 3_600_000, labels: { kind: "tree" } });
  await browser.go(`#/sandbox/${box.id}/tree`);
  await page.getByText("Fork it, or save a snapshot").waitFor();
  await page.getByRole("button", { name: "Fork" }).click();
  await page.waitForFunction((old) => !location.hash.includes(old), box.id);
  const child = new URL(page.url()).hash.split("/")[2];
  await page.getByRole("button", { name: "Snapshot" }).click();
  await page.getByText(/^Snapshot s[a-z0-9]+ \(files\) was saved/).waitFor();
  await page.getByRole("link", { name: "Tree" }).click();
  const node = (name, from) => page.locator(from ? `svg a[aria-description="from ${from}"]` : "svg a:not([aria-description])").filter({ hasText: name });
  await node(`${child} running`, `sandbox ${box.id}`).waitFor();
  await node("snapshot, files", `sandbox ${child}`).waitFor();
  await browser.look("tree");
  await node("snapshot, files", `sandbox ${child}`).click();
  await page.getByRole("button", { name: "Start a sandbox from it" }).click();
  await page.waitForFunction(() => location.hash.startsWith("#/sandbox/"));
  const restored = new URL(page.url()).hash.split("/")[2];
  await page.getByRole("link", { name: "Tree" }).click();
  await page.locator('svg a[aria-description^="from snapshot s"]').filter({ hasText: `${restored} running` }).waitFor();
  await node(`${box.id} running`).click();
  await page.getByRole("heading", { name: `Sandbox ${box.id}` }).waitFor();
  step("from a snapshot, and back to the first by the tree");

  // A template from a Dockerfile, with its output while it is built; a step that fails says so.
  await page.getByRole("link", { name: "Templates" }).click();
  await page.getByLabel("A Dockerfile").check();
  await page.getByLabel("Name").fill("made");
  await page.getByLabel("Dockerfile", { exact: true }).fill("FROM host\nRUN echo out-$((40+2))\n");
  await page.getByRole("button", { name: "Build" }).click();
  await page.getByRole("region", { name: "Output of the build" }).getByText("out-42").waitFor();
  await page.getByRole("status").getByText("made").waitFor();
  await page.getByRole("button", { name: "Start a sandbox of made" }).waitFor();
  await browser.look("templates");

  // A private port: from the console to an origin of its own.
  const tiny = await (await send(scene.admin, "POST", "/v1/templates/build", { name: "tiny", isolation: "container", dockerfile: "FROM host\nRUN true\n", idePort: 3000 })).text();
  want(/"type":"done"/.test(tiny), `a template with an editor: ${tiny}`);
  const served = await api(scene.admin, "POST", "/v1/sandboxes", { template: "tiny", ttlMs: 3_600_000 });
  want(served.privateTraffic && (await send(scene.admin, "POST", `/v1/sandboxes/${served.id}/ide/url`)).status === 502, "an editor that nobody started");
  const other = await api(scene.user, "POST", "/v1/sandboxes", { isolation: "container", ttlMs: 3_600_000, privateTraffic: true });
  const put = await fetch(`${scene.url}/v1/sandboxes/${served.id}/files?path=/tmp/server.py`, { method: "PUT", headers: { "X-API-Key": scene.admin }, body: scene.server });
  want(put.ok, `the server's file: ${put.status} ${await put.text()}`);
  await api(scene.admin, "POST", `/v1/sandboxes/${served.id}/execs`, { args: ["python3", "/tmp/server.py", scene.url] });
  await browser.go(`#/sandbox/${served.id}/ports`);
  await page.getByLabel("Port").fill("3000");
  await page.getByRole("button", { name: "Make a link" }).click();
  const link = page.getByRole("link", { name: "Open port 3000" });
  const ticket = await link.getAttribute("href");
  await browser.look("ports");
  let [shown] = await Promise.all([context.waitForEvent("page"), link.click()]);
  await link.waitFor({ state: "detached" });
  for (;;) {
    await shown.waitForLoadState();
    if ((await shown.title()) === "preview") break;
    await shown.waitForTimeout(200); // the page that says that nothing listens yet reloads itself
  }
  const own = new URL(shown.url());
  want(own.host === `3000-${served.id}.${new URL(scene.url).host}` && own.search === "", `the preview is at ${own}`);
  const result = await (await shown.waitForFunction(() => window.result)).jsonValue();
  want(result.socket === "you said knock", `the WebSocket: ${result.socket}`);
  want(result.cookie === "mine=1" && result.storage.length === 0 && !result.opener && result.api === "refused", `the page of the preview reads ${JSON.stringify(result)}`);
  const frames = await shown.evaluate(() => Promise.all(["own", "other"].map(async (id) => {
    try {
      return document.getElementById(id).contentDocument?.body.innerText.slice(0, 1) ?? "foreign";
    } catch {
      return "foreign";
    }
  })));
  const framed = shown.frames().find((f) => f.parentFrame() && !f.url().endsWith("/seen"));
  want(frames[0] === "[" && framed.url().startsWith("chrome-error:"), `frames: ${frames}, the console's is ${framed.url()}`);
  const cookies = await context.cookies();
  const session = cookies.find((c) => c.domain === new URL(scene.url).hostname);
  const mine = cookies.find((c) => c.name === "hortus-preview");
  want(session && mine?.domain === own.hostname && mine.httpOnly, `cookies: ${JSON.stringify(cookies)}`);
  const seen = JSON.parse(await (await shown.goto(`${own.origin}/seen`)).text());
  const sent = JSON.stringify(seen);
  want(seen.at(-1).headers.cookie === "mine=1", `the control: the server sees the cookies ${seen.at(-1).headers.cookie}`);
  want(!sent.includes(session.value) && !sent.includes(session.name) && !sent.includes(mine.value), `a cookie of Hortus reached the server: ${sent}`);
  step("preview with a WebSocket");

  // What listens at the port of the editor is opened from the page, and is no nearer to the console.
  await browser.go(`#/sandbox/${served.id}/editor`);
  const edit = page.getByRole("link", { name: "Open the editor" });
  const once = await edit.getAttribute("href");
  await browser.look("editor");
  const [editor] = await Promise.all([context.waitForEvent("page"), edit.click()]);
  const attack = await (await editor.waitForFunction(() => window.result)).jsonValue();
  want(new URL(editor.url()).origin === own.origin && attack.socket === "you said knock" && !attack.opener && attack.api === "refused", `the editor at ${editor.url()} reads ${JSON.stringify(attack)}`);
  await page.waitForFunction((old) => [...document.links].some((a) => a.host !== location.host && a.href !== old), once);
  want((await send(scene.user, "POST", `/v1/sandboxes/${served.id}/ide/url`)).status === 404, "another account opens the editor");
  const none = await send(scene.user, "POST", `/v1/sandboxes/${other.id}/ide/url`);
  want(none.status === 409 && /no editor/.test(await none.text()), `a sandbox without an editor: ${none.status}`);
  step("the editor's port");

  const clean = await browser.chromium.newContext({ javaScriptEnabled: false });
  const stranger = await clean.newPage();
  const statusOfOther = async (url) => {
    await clean.clearCookies();
    return (await stranger.goto(url)).status();
  };
  want((await statusOfOther(ticket)) === 403 && (await statusOfOther(once)) === 403, "a ticket was used twice");
  want((await statusOfOther(own.origin)) === 403, "without the cookie the port is open");
  const fresh = async (key, id) => (await api(key, "POST", `/v1/sandboxes/${id}/ports/3000/url`)).url;
  const theirs = new URL(await fresh(scene.user, other.id));
  theirs.host = own.host;
  want((await statusOfOther(theirs.href)) === 403, "a ticket of another account's sandbox opened the port");
  const wrongPort = new URL(await fresh(scene.admin, served.id));
  want((await statusOfOther(wrongPort.href.replace("//3000-", "//3001-"))) === 403, "a ticket opened another port");
  want((await statusOfOther(wrongPort.href)) === 403, "a ticket that was tried elsewhere is still valid");
  want((await send(scene.user, "POST", `/v1/sandboxes/${served.id}/ports/3000/url`)).status === 404, "another account made a ticket");
  want((await statusOfOther(await fresh(scene.admin, served.id))) === 200, "the control: a fresh ticket");
  want((await shown.goto(own.origin)).status() === 200, "the control: the cookie");
  await clean.close();
  step("tickets of others are refused");

  // Usage over time. To look extends nothing.
  const before = await api(scene.admin, "GET", `/v1/sandboxes/${box.id}`);
  await browser.go(`#/sandbox/${box.id}/usage`);
  await page.locator('.graph:not([data-points="0"]) canvas').first().waitFor();
  await page.getByRole("figure", { name: /Memory/ }).getByText(/of 1.0 GiB/).waitFor();
  await browser.look("usage");
  const after = await api(scene.admin, "GET", `/v1/sandboxes/${box.id}`);
  want(before.expiresAt === after.expiresAt, `to look moved the deadline from ${before.expiresAt} to ${after.expiresAt}`);
  if (scene.soak) {
    let asked = 0;
    page.on("request", (r) => (asked += r.url().endsWith("/samples") ? 1 : 0));
    await page.waitForRequest((r) => r.url().endsWith("/samples"));
    await page.evaluate(() => Object.defineProperty(document, "hidden", { value: true, configurable: true }) && document.dispatchEvent(new Event("visibilitychange")));
    asked = 0;
    await page.waitForTimeout(12_000);
    want(asked === 0, `a page that nobody sees asked ${asked} times`);
    await Promise.all([page.waitForRequest((r) => r.url().endsWith("/samples")), page.evaluate(() => delete document.hidden && document.dispatchEvent(new Event("visibilitychange")))]);
    step("a page that nobody sees does not ask");
  }

  if (scene.soak) await preset();
});

/** The preset of a browser: built and used from the page, and by Playwright. */
async function preset() {
  await browser.go("#/templates");
  await page.getByLabel("A browser that").check();
  await page.getByLabel("Name").fill("browser");
  await page.getByRole("button", { name: "Build" }).click();
  await page.getByRole("status").getByText("browser").waitFor({ timeout: 180_000 });
  await page.getByRole("button", { name: "Start a sandbox of browser" }).click();
  await page.getByRole("link", { name: "Browser" }).click();
  const id = new URL(page.url()).hash.split("/")[2];
  const box = `/v1/sandboxes/${id}`;
  const html = `<title>form</title><input autofocus style="position:fixed;inset:0;width:100%;height:100%" oninput="document.title=this.value">`;
  const files = await fetch(`${scene.url}${box}/files?path=/tmp/site/index.html`, { method: "PUT", headers: { "X-API-Key": scene.admin }, body: html });
  want(files.ok, `the page: ${files.status}`);
  await api(scene.admin, "POST", `${box}/execs`, { args: ["python3", "-m", "http.server", "-d", "/tmp/site", "--bind", "127.0.0.1", "8000"] });
  await page.getByRole("button", { name: "Take control" }).click();
  // One at a time, and nobody of another account.
  want((await send(scene.admin, "POST", `${box}/browser/control`)).status === 409, "two have the control");
  for (const [method, path] of [["POST", "control"], ["GET", "screen"], ["POST", "url"]]) want((await send(scene.user, method, `${box}/browser/${path}`)).status === 404, `another account: ${path}`);
  await page.getByLabel("Address of a page").fill("http://127.0.0.1:8000/");
  await page.getByRole("button", { name: "Open", exact: true }).click();
  await page.locator(".window").getByText("http://127.0.0.1:8000/").waitFor();
  const target = await page.evaluate(() => document.querySelector("canvas") !== null);
  want(target, "there is no picture");
  await page.getByRole("application").click({ position: { x: 200, y: 200 } });
  await page.keyboard.type("typed");
  await page.locator(".window strong").getByText("typed").waitFor();
  await browser.look("browser");
  want((await send(scene.admin, "POST", `${box}/browser/input`, { token: "guess", target: "AB", events: [] })).status === 403, "an input without the control");
  await page.getByRole("button", { name: "Give back the control" }).click();
  await page.getByRole("button", { name: "Take control" }).waitFor();
  await api(scene.admin, "POST", `${box}/browser/control`);
  step("a browser is used from the page");

  // Node knows no names below localhost: it sends the name.
  const connect = async (url) => {
    const u = new URL(url);
    const headers = { Host: u.host };
    u.hostname = "127.0.0.1";
    return chromium.connectOverCDP(u.href, { headers });
  };
  const { url } = await api(scene.admin, "POST", `${box}/browser/url`);
  const remote = await connect(url);
  const tab = await remote.contexts()[0].newPage();
  await tab.goto("http://127.0.0.1:8000/");
  want((await tab.title()) === "form", "Playwright does not see the page");
  const again = await connect(url).then(() => "connected", () => "refused");
  want(again === "refused", "a URL of a browser was used twice");
  await remote.close();
  step("Playwright uses the browser");
}

// Has people of a team use the console, each in a browser of their own. What it is told comes as JSON on stdin. It prints a line for each step
// that passed.
import { join } from "node:path";
import { Browser, axeSource, scene, step, want } from "./harness.mjs";

const { chromium: browser } = await Browser.open();
const wrong = [];

/** A browser of one person. */
async function person(name) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 850 }, permissions: ["clipboard-read", "clipboard-write"] });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  page.on("pageerror", (e) => wrong.push(`${name}: error in the page: ${e.stack}`));
  page.on("console", (m) => /Content Security Policy/.test(m.text()) && wrong.push(`${name}: against the policy: ${m.text()}`));
  page.on("request", (r) => {
    const u = new URL(r.url());
    if (u.origin !== scene.url && !(u.origin === scene.provider && r.isNavigationRequest())) wrong.push(`${name}: a request to ${r.url()}`);
  });
  return page;
}

/** Looks at a page: axe finds no violation, and it fits a telephone. */
async function look(page, name) {
  await page.evaluate(axeSource);
  const found = await page.evaluate(async () => (await globalThis.axe.run(document, { resultTypes: ["violations"] })).violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(" ") + " " + n.failureSummary).join("; ")}`));
  want(found.length === 0, `axe, ${name}: ${found.join("\n")}`);
  for (const [width, height] of [[390, 844], [1280, 850]]) {
    await page.setViewportSize({ width, height });
    for (const colorScheme of scene.shots ? ["light", "dark"] : []) {
      await page.emulateMedia({ colorScheme });
      await page.screenshot({ path: join(scene.shots, `${name}-${width}-${colorScheme}.png`), fullPage: true });
    }
    await page.emulateMedia({ colorScheme: null });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    want(wide <= width, `${name} is ${wide} pixels wide at ${width}`);
  }
  want(wrong.length === 0, `${name}: ${wrong.join("\n")}`);
  want(!(await page.evaluate(() => "pwned" in globalThis)), `${name}: markup became a program`);
  step(name);
}

/** Says who the provider signs in from now on. */
async function is(claims) {
  const r = await fetch(scene.person, { method: "POST", body: JSON.stringify({ email_verified: true, ...claims }) });
  want(r.ok, `the provider: ${r.status}`);
}
const ada = { sub: "1", email: "ada@example.org", groups: ["developers"] };
const olga = { sub: "2", email: "olga@example.org", groups: ["operators"] };
const provider = `Sign in with ${new URL(scene.provider).host}`;
const heading = (page, name) => page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
const open = (page, path) => page.evaluate((p) => void (location.hash = p), path);
const call = async (key, path) => (await fetch(scene.url + path, { headers: { "X-API-Key": key } })).status;
async function signIn(page, path = "/") {
  await page.goto(scene.url + path);
  await page.getByRole("button", { name: provider }).click();
}

try {
  // A developer signs in at the address of a page, and comes back to it.
  await is(ada);
  const dev = await person("ada");
  await dev.goto(`${scene.url}/#/settings`);
  await dev.getByRole("button", { name: provider }).waitFor();
  await look(dev, "sign-in");
  await dev.getByRole("button", { name: provider }).click();
  await heading(dev, "Secrets");
  want(new URL(dev.url()).hash === "#/settings", `after the sign-in: ${dev.url()}`);
  const cookies = await dev.context().cookies();
  want(cookies.length === 1 && cookies[0].name === "hortus-session" && cookies[0].httpOnly && cookies[0].sameSite === "Strict", `cookies: ${JSON.stringify(cookies)}`);
  const stored = await dev.evaluate(() => Object.keys(localStorage).join());
  want(stored === "hortus-page", `the storage has ${stored}`);
  await dev.goBack().catch(() => null);
  want(!dev.url().includes("code"), `the history has the code: ${dev.url()}`);

  // What a user may not do is not offered.
  await dev.goto(`${scene.url}/#/settings`);
  await heading(dev, "Secrets");
  for (const name of ["Keys", "Accounts", "Daemon"]) want((await dev.getByRole("link", { name, exact: true }).count()) === 0, `a user is offered ${name}`);
  await open(dev, "#/settings/keys");
  await dev.getByText("This page is for operators").waitFor();

  // A secret, whose value is nowhere.
  await open(dev, "#/settings");
  await heading(dev, "Secrets");
  await dev.getByText("Your account has no secret").waitFor();
  await dev.getByLabel("Name", { exact: true }).fill("shop-token");
  await dev.getByLabel("Value").fill("value-of-the-secret");
  await dev.getByLabel("Allowed hosts").fill("api.example.org, files.example.org");
  await dev.getByRole("button", { name: "Store secret" }).click();
  await dev.getByRole("list", { name: "Secrets" }).getByText("api.example.org (header Authorization)").waitFor();
  want(!(await dev.content()).includes("value-of-the-secret"), "the page has the value");
  want((await dev.getByLabel("Value").inputValue()) === "", "the field has the value");
  await look(dev, "secrets");
  await open(dev, "#/settings/host");
  await dev.getByRole("heading", { name: "Isolation" }).waitFor();
  want((await dev.getByRole("columnheader", { name: "Removable" }).count()) === 0, "a user sees the disk of the host");

  // An operator creates a key, which is shown once and works.
  await is(olga);
  const op = await person("olga");
  await signIn(op);
  await heading(op, "Home");
  await op.getByRole("link", { name: "Settings" }).click();
  await op.getByText("Your account has no secret").waitFor(); // that of another account
  await op.getByRole("link", { name: "Keys" }).click();
  await heading(op, "Keys");
  const keys = op.getByRole("list", { name: "Keys" });
  await keys.getByText("ada@example.org").waitFor();
  await op.getByLabel("Account", { exact: true }).fill("other");
  await op.getByLabel("What it is for").fill(scene.evil);
  await op.getByText("Limits for all sandboxes").click();
  await op.getByLabel("Sandboxes at a time").fill("3");
  await op.getByLabel("Memory in GiB").fill("1.5");
  await op.getByRole("button", { name: "Create key" }).click();
  const secret = await op.getByLabel("The new key").innerText();
  want(/^e2b_[0-9a-f]{40}$/.test(secret), `the key is ${secret}`);
  await op.getByRole("button", { name: "Copy" }).click();
  await op.getByRole("button", { name: "Copied" }).waitFor();
  want((await op.evaluate(() => navigator.clipboard.readText())) === secret, "the clipboard has something else");
  await keys.getByText(/3 sandboxes, 1\.5 GiB memory/).waitFor();
  await look(op, "keys");
  want((await call(secret, "/v1/tasks")) === 200, "the key does not work");
  await op.reload();
  await keys.getByText(scene.evil).waitFor();
  want(!(await op.content()).includes(secret), "the key is shown again");
  await open(op, "#/settings/accounts");
  await op.getByRole("list", { name: "Accounts" }).getByText("other", { exact: true }).waitFor();
  await look(op, "accounts");
  await open(op, "#/settings/host");
  await op.getByRole("columnheader", { name: "Removable" }).waitFor();
  await op.getByText("All capabilities").click();
  await look(op, "host");
  await open(op, "#/settings/daemon");
  await op.getByLabel("New log level").selectOption("warn");
  await op.getByRole("button", { name: "Set until it restarts" }).click();
  await op.getByText("warn", { exact: true }).first().waitFor();
  await look(op, "daemon");

  // The key signs in another person, who sees nothing of the others. It ends with the key.
  const guest = await person("guest");
  await guest.goto(scene.url);
  await guest.getByLabel("API key").fill(secret);
  await guest.getByRole("button", { name: "Sign in", exact: true }).click();
  await heading(guest, "Home");
  await open(guest, "#/settings");
  await guest.getByText("Your account has no secret").waitFor();
  want(!(await guest.content()).includes("shop-token"), "another account sees the secret");
  await open(op, "#/settings/keys");
  await op.getByRole("button", { name: `Revoke ${scene.evil}` }).click();
  await op.getByRole("button", { name: "Revoke: clients with it stop working" }).click();
  await keys.getByText(scene.evil).waitFor({ state: "detached" });
  want((await call(secret, "/v1/tasks")) === 401, "the revoked key works");
  await open(guest, "#/tasks");
  await guest.getByText("Your session has ended").waitFor();
  step("a key, created, used, revoked and signed out");

  // Ada leaves the group: her next sign-in is refused, and her other browser is signed out.
  await is({ ...ada, groups: ["guests"] });
  const again = await person("ada at home");
  await signIn(again);
  await again.getByRole("alert").getByText("no rule matches groups").waitFor();
  await again.getByRole("alert").getByText("oidc.rules").waitFor();
  await look(again, "refused");
  await open(dev, "#/tasks");
  await dev.getByText("Your session has ended").waitFor();
  step("a group that is gone");

  // Olga is signed out by the key that her sign-in made.
  await op.getByRole("button", { name: "Revoke olga@example.org" }).click();
  await op.getByRole("button", { name: "Revoke and sign out" }).click();
  await op.getByText("Your session has ended").waitFor();

  // An answer of the provider for one browser is none for another (login CSRF), and no storage leads elsewhere.
  await is(olga);
  await again.route("**/console/session", (route) => route.abort()); // this browser does not use its answer
  const [caught] = await Promise.all([again.waitForRequest((r) => r.url().includes("/console/oidc/callback?")), signIn(again)]);
  await guest.goto(caught.url());
  await guest.getByRole("alert").getByText("this sign-in did not begin in this browser").waitFor();
  want(!new URL(guest.url()).hash.includes("oidc"), `the address has the code: ${guest.url()}`);
  await signIn(guest, "/#//evil.example/x");
  await guest.getByRole("link", { name: "Settings" }).waitFor();
  want(new URL(guest.url()).origin === scene.url, `led to ${guest.url()}`);
  await guest.goto(`${scene.url}/console/oidc/callback?error=access_denied&error_description=Call+0800`);
  await guest.getByText("refused the sign-in (access_denied)").waitFor();
  want(!(await guest.content()).includes("0800"), "a text of the address is shown");
  step("answers for others");
  want(wrong.length === 0, wrong.join("\n"));
  console.log("all steps passed");
} catch (e) {
  console.log(e);
  for (const context of browser.contexts()) for (const page of context.pages()) console.log(page.url(), (await page.locator("body").innerText().catch(() => "")).slice(0, 1500));
  process.exitCode = 1;
} finally {
  await browser.close();
}

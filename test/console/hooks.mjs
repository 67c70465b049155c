// Creates a webhook in one browser, and sends what a forge sends: signed, not signed, of a stranger whose every text is markup.
import { createHmac } from "node:crypto";
import { Browser, api, run, scene, want } from "./harness.mjs";

const browser = await Browser.open();
const { page } = browser;
const button = (name) => page.getByRole("button", { name, exact: true });

/** Sends the event of a comment, signed with a secret, and returns the answer. */
async function send(url, secret, id, sender, text) {
  const at = new Date().toISOString();
  const user = { id: 5, login: sender, type: "User" };
  const body = JSON.stringify({
    action: "created", issue: { number: 7, title: scene.evil, body: scene.evil, user }, comment: { id, body: text, user, created_at: at },
    repository: { full_name: "garden/shop" }, sender: user,
  });
  const headers = { "Content-Type": "application/json", "X-GitHub-Event": "issue_comment", "X-Hub-Signature-256": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}` };
  const r = await fetch(url, { method: "POST", headers, body });
  return { status: r.status, body: await r.json() };
}

await run(browser, async () => {
  await browser.signIn(scene.admin);
  await browser.go(`#/repository/${scene.repository}/hook`);
  await page.getByText("There is no webhook.").waitFor();
  await browser.look("no webhook");

  await page.getByLabel("People who may start tasks").fill("ada bob");
  await page.getByLabel("Tasks a day").fill("3");
  await button("Create the webhook").click();
  await page.getByText("The signing secret. It is not shown again.").waitFor();
  await page.getByText("Let me select individual events").waitFor();
  const secret = await page.getByLabel("The signing secret").innerText();
  const { url, hook } = await api(scene.admin, "GET", `/v1/repositories/${scene.repository}/hook`);
  want(hook.tasksPerDay === 3 && hook.people.join() === "ada,bob" && hook.label === "hortus" && hook.command === "/hortus", JSON.stringify(hook));
  await browser.look("a webhook with its secret");
  await button("Hide").click();
  want(!(await page.content()).includes(secret), "the secret is still in the page");

  // A wrong signature leaves no trace; a stranger's request is shown with its reason, as text, without a reload.
  want((await send(url, `${secret}x`, 1, "ada", "/hortus x")).status === 401, "a wrong secret is accepted");
  want((await send(url, secret, 2, scene.evil, "/hortus x")).body.reason.includes("not in the list"), "a stranger is not refused");
  await page.getByText("the person is not in the list of the hook").waitFor();
  await page.getByText(scene.evil).waitFor();
  want((await page.getByText("Comment of").count()) === 1, "not exactly one event is shown");
  // In the list, but the forge knows another account of the name.
  want((await send(url, secret, 3, "ada", "/hortus x")).body.reason.includes("may not write"), "a forged account is not refused");
  await page.getByText("may not write to the repository", { exact: false }).last().waitFor();
  await browser.look("events of a webhook");

  await page.getByLabel("First word of a comment").fill("/a b");
  browser.failing = true;
  await button("Save").click();
  await page.getByRole("alert").getByText("is not a command").waitFor();
  browser.failing = false;
  await page.getByLabel("First word of a comment").fill("/garden");
  await button("Save").click();
  await page.getByText("Saved", { exact: true }).waitFor();
  await button("Remove the webhook").click();
  await button("Remove it").click();
  await button("Create the webhook").waitFor();
  want((await send(url, secret, 4, "ada", "/garden x")).status === 401, "a removed webhook accepts events");

  // Another account cannot see it: neither here nor in the API.
  const r = await fetch(`${scene.url}/v1/repositories/${scene.repository}/hook`, { headers: { "X-API-Key": scene.user } });
  want(r.status === 403 || r.status === 404, `another account gets ${r.status}`);
  want(browser.wrong.length === 0, browser.wrong.join("\n"));
});

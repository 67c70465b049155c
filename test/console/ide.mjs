// Builds the preset of an editor from the page, and uses the editor as a person does.
import { join } from "node:path";
import { api, Browser, run, scene, step, want } from "./harness.mjs";

const browser = await Browser.open();
const { page, context } = browser;
const send = (key, method, path, body) => fetch(scene.url + path, { method, headers: { "X-API-Key": key }, body });

await run(browser, async () => {
  await browser.signIn(scene.admin);
  await browser.go("#/templates");
  await page.getByLabel("An editor with a terminal").check();
  await page.getByRole("button", { name: "Build" }).click();
  await page.getByRole("status").getByText("Template ide is ready").waitFor({ timeout: 400_000 });
  step("the preset is built");
  await page.getByRole("button", { name: "Start a sandbox of ide" }).click();
  await page.getByRole("link", { name: "Editor" }).click();
  const id = new URL(page.url()).hash.split("/")[2];
  const box = `/v1/sandboxes/${id}`;
  const put = await send(scene.admin, "PUT", `${box}/files?path=/workspace/notes.txt`, "first line\n");
  want(put.ok, `a file: ${put.status}`);
  const link = page.getByRole("link", { name: "Open the editor" });
  const ticket = await link.getAttribute("href");
  await browser.look("editor");

  const [editor] = await Promise.all([context.waitForEvent("page"), link.click()]);
  const outside = [];
  editor.on("request", (r) => {
    const u = new URL(r.url());
    if (/^(http|ws)/.test(u.protocol) && u.hostname !== `13337-${id}.localhost`) outside.push(r.url());
  });
  const file = editor.getByRole("treeitem", { name: "notes.txt" }).first();
  await file.waitFor();
  const own = new URL(editor.url());
  want(own.host === `13337-${id}.${new URL(scene.url).host}` && !own.searchParams.has("hortus-ticket"), `the editor is at ${own}`);
  step("the editor is opened");
  await file.dblclick();
  await editor.locator(".monaco-editor .view-lines").first().click();
  await editor.keyboard.press("Control+End");
  await editor.keyboard.type("typed here");
  await editor.keyboard.press("Control+s");
  // The file is read with a program inside, not by the editor.
  const inside = async (path, text) => {
    const wait = 'until grep -qs "$1" "$2"; do sleep 0.2; done';
    let exec = await api(scene.admin, "POST", `${box}/execs`, { args: ["timeout", "60", "sh", "-c", wait, "sh", text, path] });
    while (exec.state === "running") {
      await editor.waitForTimeout(200);
      exec = await api(scene.admin, "GET", `${box}/execs/${exec.id}`);
    }
    want(exec.exit?.code === 0, `${path} has no ${text}: ${JSON.stringify(exec)}`);
  };
  await inside("/workspace/notes.txt", "typed here");
  step("a file is edited");
  await editor.keyboard.press("Control+`");
  await editor.locator(".terminal-wrapper.active .xterm-helper-textarea").focus();
  await editor.keyboard.type("echo ran-$((40+2)) >from-terminal\n");
  await inside("/workspace/from-terminal", "ran-42");
  step("a command runs in its terminal");
  if (scene.pictures) await editor.screenshot({ path: join(scene.pictures, "ide-1200.png") });

  // The gallery of extensions is not asked: there is no network.
  await editor.keyboard.press("Control+Shift+x");
  await editor.locator(".extensions-viewlet").waitFor();
  want(outside.length === 0, `the editor's page asks ${outside}`);

  const read = await editor.evaluate(async (url) => fetch(`${url}/v1/info`, { credentials: "include" }).then((r) => `read ${r.status}`, () => "refused"), scene.url);
  want(read === "refused" && (await editor.evaluate(() => window.opener)) === null, `the editor's page reaches the console: ${read}`);
  const stranger = await (await browser.chromium.newContext()).newPage();
  want((await stranger.goto(ticket)).status() === 403, "a ticket was used twice");
  want((await stranger.goto(own.origin)).status() === 403, "the editor is open without a ticket");
  want((await send(scene.user, "POST", `${box}/ide/url`)).status === 404, "another account makes a link");
  const fresh = await api(scene.admin, "POST", `${box}/ide/url`);
  want((await stranger.goto(fresh.url)).status() === 200, "the control: a fresh link");
  await browser.sound("only a link opens the editor");
});

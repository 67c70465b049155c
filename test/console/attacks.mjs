// Attacks on the console in a real browser: pages of other origins, names that resolve to this machine, and texts that want to be more than text.
// Each one has a control, which shows that the attack would be noticed.
import { Browser, api, run, scene, step, want } from "./harness.mjs";

const { port } = new URL(scene.url);
const b = await Browser.open([`--host-resolver-rules=MAP evil.example 127.0.0.1`], { permissions: ["clipboard-read", "clipboard-write"] });
const { page } = b;
const count = async () => (await api(scene.admin, "GET", "/v1/sandboxes?all=1")).length;

await run(b, async () => {
  await b.signIn(scene.admin);
  const secret = await page.evaluate(() => localStorage.getItem("hortus-page"));
  const [cookie] = await b.context.cookies();
  want(secret && cookie.httpOnly && !(await page.evaluate(() => document.cookie)), "a script sees the cookie");

  // Pages of other origins: another port of this machine, to which the browser sends the cookie, and another site.
  const other = await b.context.newPage();
  const before = await count();
  for (const origin of [scene.other, scene.other.replace("127.0.0.1", "localhost")]) {
    await other.goto(origin);
    const sent = await other.evaluate(async (url) => {
      const body = JSON.stringify({ isolation: "container" });
      const result = {};
      for (const [name, init] of Object.entries({
        "no-cors": { method: "POST", mode: "no-cors", body },
        cors: { method: "POST", body, headers: { "X-Hortus-Page": "guess" } },
        read: { method: "GET" },
      }))
        result[name] = await fetch(`${url}/v1/sandboxes`, { credentials: "include", ...init }).then((r) => r.type, () => "refused");
      result.socket = await new Promise((resolve) => {
        const s = new WebSocket(`${url.replace("http", "ws")}/v1/watch`);
        s.onopen = () => resolve("open");
        s.onerror = () => resolve("refused");
      });
      return result;
    }, scene.url);
    want(sent.cors === "refused" && sent.read === "refused" && sent.socket === "refused", `${origin}: ${JSON.stringify(sent)}`);
    // A form sends JSON as a text whose rest is the value of a field.
    const [answer] = await Promise.all([
      other.waitForResponse((r) => r.request().method() === "POST" && r.request().isNavigationRequest()),
      other.evaluate((url) => {
        const frame = document.createElement("iframe");
        frame.name = "into";
        document.body.append(frame);
        const form = document.body.appendChild(document.createElement("form"));
        Object.assign(form, { method: "POST", enctype: "text/plain", action: `${url}/v1/sandboxes`, target: "into" });
        const input = form.appendChild(document.createElement("input"));
        Object.assign(input, { name: '{"isolation":"container","labels":{"x":"', value: '"}}' });
        form.submit();
      }, scene.url),
    ]);
    want(answer.status() === 403 || answer.status() === 401, `${origin}, a form: ${answer.status()}`);
    want((await count()) === before, `${origin} created a sandbox`);
  }
  const own = await page.evaluate(async () => (await fetch("/v1/sandboxes", { method: "POST", headers: { "X-Hortus-Page": localStorage.getItem("hortus-page") }, body: JSON.stringify({ isolation: "container" }) })).status);
  want(own === 201 && (await count()) === before + 1, `the control: ${own}`);
  step("CSRF: fetch, form, WebSocket");

  // The other port of this machine got the cookie. It is of no use alone.
  const headers = await (await fetch(`${scene.other}/seen`)).json();
  want(headers.some((h) => h.includes(cookie.value)), "the control: the browser sent no cookie to the other port");
  want(!headers.some((h) => h.includes(secret)), "the half of the page was sent to another port");
  const status = async (h) => (await fetch(`${scene.url}/v1/tasks`, { headers: { Origin: scene.url, Cookie: `${cookie.name}=${cookie.value}`, ...h } })).status;
  want((await status({})) === 401 && (await status({ "X-Hortus-Page": secret })) === 200, "the cookie alone is a session");
  step("a stolen cookie");

  // A page of a sandbox has an origin of its own: no cookie, no storage, and nothing that it can set for the console.
  const box = await api(scene.admin, "POST", "/v1/sandboxes", { isolation: "container", labels: { kind: "preview" } });
  const serve = "import http.server,json\nclass H(http.server.BaseHTTPRequestHandler):\n def do_GET(s):\n  s.send_response(200);s.send_header('content-type','text/html');s.send_header('set-cookie','" + cookie.name + "=tossed; Path=/');s.end_headers();s.wfile.write(('<title>" + "<b>x</b>" + "</title><pre>'+json.dumps(dict(s.headers))+'</pre>').encode())\nhttp.server.ThreadingHTTPServer(('127.0.0.1',3000),H).serve_forever()";
  await api(scene.admin, "POST", `/v1/sandboxes/${box.id}/execs`, { args: ["python3", "-c", serve] });
  const preview = await b.context.newPage();
  for (let text = ""; !text.includes("Accept-Language"); ) {
    const { url } = await api(scene.admin, "POST", `/v1/sandboxes/${box.id}/ports/3000/url`, {});
    await preview.goto(url);
    text = await preview.locator("body").innerText();
    want(!text.includes(cookie.value) && !text.includes(secret), `a program sees the session: ${text}`);
  }
  const taken = await preview.evaluate(async (url) => ({
    cookie: document.cookie, page: localStorage.getItem("hortus-page"),
    read: await fetch(`${url}/v1/tasks`, { credentials: "include" }).then(() => "read", () => "refused"),
  }), scene.url);
  want(!taken.cookie.includes(cookie.value) && taken.page === null && taken.read === "refused", JSON.stringify(taken));
  await preview.close();
  await b.go("#/tasks");
  await page.getByRole("heading", { level: 1, name: "Tasks" }).waitFor();
  want((await b.context.cookies(scene.url)).some((c) => c.value === cookie.value), "a program replaced the cookie of the console");
  step("preview origin");

  // In a frame the console is not shown, and a window that another page opens is out of its reach.
  const framed = async (url) => {
    await other.goto(scene.other);
    await other.evaluate((u) => new Promise((resolve) => {
      const f = document.body.appendChild(document.createElement("iframe"));
      f.onload = resolve;
      f.src = u;
    }), url);
    return other.frames().at(-1).url();
  };
  want((await framed(`${scene.other}/framed`)).endsWith("/framed"), "the control: no frame is shown");
  want(!(await framed(scene.url)).startsWith(scene.url), "the console is shown in a frame");
  step("clickjacking");
  const opened = async (url) => {
    await other.goto(scene.other);
    const [popup] = await Promise.all([b.context.waitForEvent("page"), other.evaluate((u) => void (globalThis.w = open(u)), url)]);
    await popup.waitForLoadState();
    await popup.evaluate(() => {
      globalThis.got = [];
      addEventListener("message", (e) => globalThis.got.push(e.data));
    });
    const closed = await other.evaluate(async () => {
      for (const m of [{ type: "sign-out" }, { key: "hortus-page", newValue: "x" }, "<img src=x onerror=pwned=1>"]) globalThis.w.postMessage(m, "*");
      return globalThis.w.closed;
    });
    await popup.evaluate(() => new Promise((resolve) => setTimeout(resolve, 200)));
    const got = await popup.evaluate(() => globalThis.got.length);
    const opener = await popup.evaluate(() => globalThis.opener !== null);
    await popup.close();
    return { closed, got, opener };
  };
  const reached = await opened(`${scene.other}/framed`);
  want(!reached.closed && reached.got === 3 && reached.opener, `the control: ${JSON.stringify(reached)}`);
  const kept = await opened(scene.url);
  want(kept.closed && kept.got === 0 && !kept.opener, `a page that opens the console reaches it: ${JSON.stringify(kept)}`);
  await page.evaluate(() => {
    for (const data of [{ type: "sign-out" }, { key: "hortus-page", newValue: "x" }, "<img src=x onerror=pwned=1>"]) postMessage(data, "*");
  });
  await b.go("#/sandboxes");
  await page.getByRole("heading", { level: 1, name: "Sandboxes" }).waitFor();
  want((await page.evaluate(() => localStorage.getItem("hortus-page"))) === secret, "a message changed the session");
  step("postMessage");

  // A name that an attacker makes resolve to this machine.
  const rebound = await other.goto(`http://evil.example:${port}/`);
  want(rebound.status() === 403, `rebinding: ${rebound.status()}`);
  const asked = await other.evaluate(() => fetch("/v1/tasks", { headers: { "X-Hortus-Page": "guess" } }).then((r) => r.status));
  want(asked === 403 || asked === 401, `rebinding, the API: ${asked}`);
  want((await other.goto(`http://localhost:${port}/`)).status() === 200, "the control: localhost");
  await other.close();
  step("DNS rebinding");

  // Texts of a task that want to be markup or an address.
  for (const part of ["", "/changes", "/gates", "/candidates"]) {
    if (part === "/changes") await page.route("**/diff", (r) => r.fulfill({ contentType: "text/plain", body: scene.evilPatch }));
    await b.go(`#/task/${scene.evilTask}${part}`);
    await page.getByRole("heading", { level: 1 }).getByText(scene.evil.slice(0, 30)).waitFor();
    await page.getByRole("link", { name: part === "" ? "Timeline" : part.slice(1), exact: false }).and(page.locator("[aria-current=page]")).waitFor();
    await page.getByText(scene.evil).first().waitFor();
    const links = await page.evaluate(() => [...document.querySelectorAll("main a")].map((a) => a.protocol).filter((p) => p !== "http:"));
    want(links.length === 0, `${part}: links to ${links}`);
    if (part === "/changes") {
      const place = page.getByRole("button", { name: /^Comment on line/ }).first();
      await place.click();
      await page.keyboard.type(scene.evil);
      await page.getByRole("button", { name: "Keep comment" }).click();
      await page.getByRole("heading", { name: "1 comment for the agent" }).waitFor();
    }
    await b.look(`task of markup${part}`);
  }
  await page.unroute("**/diff");
  // What the storage has is not trusted either.
  await page.evaluate((id) => localStorage.setItem(`hortus-comments-${id}`, '{"all":1}'), scene.evilTask);
  await page.reload();
  await page.getByRole("heading", { level: 1 }).getByText(scene.evil.slice(0, 30)).waitFor();
  await b.sound("storage that is damaged");

  // Control sequences of a terminal: the clipboard, the title, links, and reports that would be typed.
  await page.evaluate(() => navigator.clipboard.writeText("untouched"));
  await b.go(`#/sandbox/${box.id}`);
  await page.getByText("Connected. The shell").waitFor();
  await page.getByRole("button", { name: "Text log" }).click();
  const log = page.getByRole("region", { name: "What the shell wrote, as text" });
  const title = await page.title();
  const type = async (text) => {
    await page.getByLabel("Terminal input").focus();
    await page.keyboard.type(text + "\n");
  };
  const esc = String.raw`\033`;
  const sequences = `printf '${esc}]52;c;cHduZWQ=\\a${esc}]0;pwned-title\\a${esc}]8;;javascript:window.pwned=1${esc}\\\\click${esc}]8;;${esc}\\\\ ${esc}[21t<img src=x onerror=window.pwned=1> all-%d\\n' $((40+2))`;
  await api(scene.admin, "POST", `/v1/sandboxes/${box.id}/execs`, { args: ["sh", "-c", 'printf "%s" "$0" > evil.sh', sequences] });
  await type("until [ -s evil.sh ]; do sleep 0.1; done; sh evil.sh");
  await log.getByText("all-42").waitFor();
  await type("echo after-$((50+2))");
  await log.getByText("after-52").waitFor();
  want((await page.title()) === title, `the title is ${await page.title()}`);
  want((await page.evaluate(() => navigator.clipboard.readText())) === "untouched", "a program wrote to the clipboard");
  const text = await log.innerText();
  want(text.includes("click <img src=x onerror=window.pwned=1> all-42") && !/pwned-title|javascript:|cHduZWQ|\]l/.test(text), `the log: ${text}`);
  const line = await page.locator(".xterm-screen").boundingBox();
  for (let y = 8; y < 120; y += 8) await page.mouse.click(line.x + 12, line.y + y);
  want((await page.evaluate(() => [...document.querySelectorAll("main a")].filter((a) => a.protocol === "javascript:").length)) === 0, "a link of a program");
  await page.evaluate(() => navigator.clipboard.writeText("control"));
  want((await page.evaluate(() => navigator.clipboard.readText())) === "control", "the control: the clipboard cannot be read");
  await b.sound("terminal");

  // Another account: each address says the same as for what never was.
  await b.go("#/");
  await page.locator("summary", { hasText: "default" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("API key").waitFor();
  want((await page.evaluate(() => Object.keys(localStorage).filter((k) => k.startsWith("hortus-comments-")).length)) === 0, "comments stay after the sign-out");
  await b.signIn(scene.user);
  b.failing = true;
  const shown = async (path) => {
    await b.go("#/");
    await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
    await b.go(path);
    await page.getByRole("alert").first().waitFor();
    return (await page.locator("main").innerText()).replaceAll(/\b[a-z0-9]{20}\b/g, "ID");
  };
  const never = { task: scene.evilTask.slice(0, -4) + "zzzz", sandbox: box.id.slice(0, -4) + "zzzz" };
  for (const [kind, id, part] of [["task", scene.evilTask, ""], ["task", scene.evilTask, "changes"], ["new", scene.evilTask, ""], ["new", scene.evilTask, "review"], ["sandbox", box.id, ""], ["sandbox", box.id, "files"], ["sandbox", box.id, "commands"], ["sandbox", box.id, "network"]]) {
    const theirs = await shown(`#/${kind}/${id}/${part}`);
    want(!theirs.includes(scene.evil.slice(0, 20)) && !theirs.includes("preview"), `${kind} ${part}: ${theirs}`);
    want(theirs === (await shown(`#/${kind}/${kind === "sandbox" ? never.sandbox : never.task}/${part}`)), `${kind} ${part} tells that it is there: ${theirs}`);
  }
  step("another account");
});

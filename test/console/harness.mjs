// What scripts that use a browser share. What a script is told comes as JSON on stdin, and it prints a line for each step that passed.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

export const scene = JSON.parse(readFileSync(0, "utf8"));
const require = createRequire(join(scene.modules, "x"));
export const { chromium } = require("playwright-core");
export const axeSource = readFileSync(join(scene.modules, "axe-core/axe.min.js"), "utf8");

const began = Date.now();
export const step = (name) => console.log(`${((Date.now() - began) / 1000).toFixed(1)} s  ${name}`);
export const want = (ok, what) => {
  if (!ok) throw new Error(what);
};

export const api = async (key, method, path, body) => {
  const r = await fetch(scene.url + path, { method, headers: { "X-API-Key": key }, body: body && JSON.stringify(body) });
  const text = await r.text();
  want(r.ok, `${method} ${path}: ${r.status} ${text}`);
  return text && JSON.parse(text);
};

/** A browser with one page, which notes all that is wrong with it. */
export class Browser {
  wrong = [];
  /** True while requests are expected to fail. */
  failing = false;
  /** What addresses contain whose requests are refused. The browser may report that long after the page shows it. */
  refused = [];

  static async open(args = [], options = {}) {
    const b = new Browser();
    b.chromium = await chromium.launch({
      executablePath: scene.chromium,
      args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", ...args],
    });
    b.context = await b.chromium.newContext({ viewport: { width: 1200, height: 850 }, acceptDownloads: true, ...options });
    b.context.setDefaultTimeout(60_000);
    b.page = await b.tab();
    return b;
  }

  /** Opens another tab, with the same cookies and storage. */
  async tab() {
    const page = await this.context.newPage();
    page.on("pageerror", (e) => this.wrong.push(`error in the page: ${e.stack}`));
    page.on("console", (m) => {
      if (/Content Security Policy/.test(m.text())) this.wrong.push(`against the policy: ${m.text()}`);
      else if (m.type() === "error" && !this.failing && !this.refused.some((part) => m.location().url.includes(part))) this.wrong.push(`console: ${m.text()} ${m.location().url}`);
    });
    page.on("request", (r) => {
      const u = new URL(r.url());
      if (u.origin !== scene.url && u.protocol !== "blob:") this.wrong.push(`a request to ${r.url()}`);
    });
    page.on("dialog", (d) => {
      this.wrong.push(`a dialog: ${d.message()}`);
      void d.dismiss();
    });
    return page;
  }

  /** Nothing is wrong up to here. */
  async sound(name, page = this.page) {
    want(this.wrong.length === 0, `${name}: ${this.wrong.join("\n")}`);
    want(!(await page.evaluate(() => "pwned" in globalThis)), `${name}: markup became a program`);
    step(name);
  }

  /** Looks at a page: it is sound, axe finds no violation, and it fits a telephone. */
  async look(name) {
    const { page } = this;
    // The console loads one document, so axe is there until the page is reloaded.
    if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axeSource);
    const found = await page.evaluate(async () => (await globalThis.axe.run(document, { resultTypes: ["violations"] })).violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(" ") + " " + n.failureSummary).join("; ")}`));
    want(found.length === 0, `axe, ${name}: ${found.join("\n")}`);
    await page.setViewportSize({ width: 390, height: 844 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    await page.setViewportSize({ width: 1200, height: 850 });
    want(wide <= 390, `${name} is ${wide} pixels wide on a telephone`);
    await this.sound(name);
  }

  async signIn(key) {
    await this.page.goto(scene.url);
    await this.page.getByLabel("API key").fill(key);
    await this.page.getByRole("button", { name: "Sign in" }).click();
    await this.page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  }

  go(path, page = this.page) {
    return page.evaluate((p) => void (location.hash = p), path);
  }
}

/** Runs the steps. The last line says whether all of them passed. */
export async function run(browser, steps) {
  try {
    await steps();
    await browser.chromium.close();
    console.log("all steps passed");
  } catch (e) {
    console.log(`${e.stack ?? e}\nat ${browser.page.url()}\n${browser.wrong.join("\n")}`);
    await browser.page.screenshot({ path: process.env.HORTUS_SCREENSHOT ?? "/dev/null", type: "png" }).catch(() => {});
    await browser.chromium.close();
    process.exit(1);
  }
}

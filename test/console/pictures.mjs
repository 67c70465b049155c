// Takes pictures of the console for README and docs, while tasks, a plan and a sandbox are at work.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { api, Browser, run, scene, step } from "./harness.mjs";

const b = await Browser.open([], { viewport: { width: 1200, height: 760 }, deviceScaleFactor: 2, reducedMotion: "reduce" });
const { page } = b;
const button = (name) => page.getByRole("button", { name, exact: true });
const node = (id, word) => page.locator("svg g", { hasText: id }).filter({ hasText: word }).first().waitFor();
const cdp = await b.context.newCDPSession(page);

async function picture(name) {
  const { data } = await cdp.send("Page.captureScreenshot", { format: "webp", quality: 80 });
  writeFileSync(join(scene.folder, `${name}.webp`), Buffer.from(data, "base64"));
  await b.sound(name);
}

await run(b, async () => {
  await page.goto(scene.link);
  await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  await b.go(`#/task/${scene.task}`);
  await page.getByText("Finished: verified", { exact: true }).waitFor();
  await page.getByRole("link", { name: "Changes" }).click();
  await button("Side by side").click();
  await page.getByText("ordered[middle - 1]").first().waitFor();
  await picture("task");

  await b.go(`#/plan/${scene.plan}`);
  await button("Approve").click();
  await node("median", "completed");
  await node("ranks", "completed");
  await node("export", "agent works");
  await picture("plan");
  await page.emulateMedia({ colorScheme: "dark" });
  await picture("plan-dark");
  await page.emulateMedia({ colorScheme: "light" });

  await b.go(`#/sandbox/${scene.sandbox}`);
  await page.getByText("Connected. The shell").waitFor();
  const screen = page.locator(".xterm-rows");
  const type = async (line, until) => {
    await page.getByLabel("Terminal input").focus();
    await page.keyboard.type(`${line}\n`);
    await screen.getByText(until).first().waitFor();
  };
  await type("python3 -m unittest", "FAILED (failures=1)");
  await type(`python3 -c 'from grades.statistics import mean; print("mean", mean([60, 70, 95]))'`, "mean 75.0");
  await page.evaluate(() => scrollTo(0, 0));
  await picture("sandbox");

  // A program waits for a person.
  await api(scene.admin, "POST", `/v1/sandboxes/${scene.sandbox}/execs`, { args: ["python3", "-c", "import urllib.request; urllib.request.urlopen('https://api.example.com/')"] });
  await b.go("#/");
  await button("Allow api.example.com:443").waitFor();
  await picture("home");

  await fetch(`${scene.models}/release/export`, { method: "POST" });
  await b.go(`#/plan/${scene.plan}`);
  await node("report", "completed");
  step("the plan goes on");
});

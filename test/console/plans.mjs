// Uses plans and sessions in one browser, with scripted agents and real sandboxes.
import { Browser, run, scene, step, want } from "./harness.mjs";

const browser = await Browser.open();
const { page } = browser;
const heading = (name) => page.getByRole("heading", { level: 1, name }).waitFor();
const button = (name) => page.getByRole("button", { name, exact: true });
const release = (name) => fetch(`${scene.models}/release/${name}`, { method: "POST" });
/** Waits until the picture shows an item in a state. */
const node = (id, word) => page.locator("svg g", { hasText: `${id}` }).filter({ hasText: word }).first().waitFor();

/** Fills the form for a plan. */
async function newPlan(request, items, ref = "") {
  await browser.go("#/new-plan");
  await heading("New plan");
  await page.getByLabel("Request").fill(request);
  await page.getByLabel("Repository").fill(scene.repository);
  await page.getByLabel("Branch or commit").fill(ref);
  await page.getByLabel("Gate: the command that decides").fill("test -f a.txt");
  await page.getByLabel("Model").fill("anthropic");
  await page.getByLabel("Author of the commits: name").fill("Ada");
  await page.getByLabel("Author of the commits: email").fill("ada@example.org");
  await page.getByText("Items of your own").click();
  await page.getByLabel("Items as JSON").fill(JSON.stringify(items));
}

async function plans() {
  const items = [
    { id: "first", title: scene.evil, request: `[first] Change a.txt ${scene.evil}`, touches: ["a.txt"] },
    { id: "asks", request: "[asks] Change b.txt", touches: ["b.txt"] },
    { id: "last", request: "[last] Change c.txt", touches: ["c.txt"], needs: ["first"], acceptance: "git grep -q C" },
  ];
  // A plan from the form, which waits for its approval. Its texts are markup.
  await newPlan(scene.evil, items, scene.evilBranch);
  await browser.look("form for a plan");
  browser.failing = true;
  await button("Propose").click();
  await page.getByRole("alert").getByText("may be a directory on the daemon's machine").waitFor();
  browser.failing = false;
  await browser.go(`#/plan/${scene.plan}`);
  await page.getByText("proposed", { exact: true }).waitFor();
  await node("last", "pending");
  await page.getByText(scene.evilBranch).first().waitFor();
  await page.getByText("Request", { exact: true }).first().click();
  await page.getByText(`[first] Change a.txt ${scene.evil}`).waitFor();
  await browser.look("a plan of markup");

  // What is wrong with an item is said at that one.
  await button("Edit items").click();
  const last = page.getByRole("textbox", { name: "Item last" });
  await last.fill("{");
  await button("Save the items").click();
  await page.getByRole("alert").getByText("This item is no JSON").waitFor();
  await browser.look("editor of items");
  await button("Discard").click();

  // Home has it. It is approved and watched.
  await browser.go("#/");
  await heading("Home");
  await page.getByRole("listitem").filter({ hasText: "proposed" }).getByRole("link", { name: scene.evil }).click();
  await button("Approve").click();
  const answer = button("Allow these files for asks");
  await answer.waitFor();
  await browser.look("an item that asks for files");
  await answer.click();
  await node("asks", "completed");
  await button("Pause").click();
  await page.getByText("paused", { exact: true }).first().waitFor();
  await button("Resume").click();
  await page.getByText("running", { exact: true }).first().waitFor();
  await release("first");
  await page.getByText("verified", { exact: true }).first().waitFor();
  for (const item of ["first", "asks", "last"]) await node(item, "completed");
  await page.getByText("asks: c.txt granted by a person").waitFor();
  await page.getByText("Finished: verified", { exact: true }).waitFor();
  await page.getByRole("heading", { name: "Delivery" }).waitFor();
  await browser.look("a plan that is verified");
}

/** A plan that is canceled has a receipt. */
async function canceled() {
  await browser.go(`#/plan/${scene.endless}`);
  await button("Approve").click();
  await node("quick", "completed");
  await node("hangs", "agent works");
  await button("Cancel plan").click();
  await button("Cancel it now").click();
  await page.getByRole("heading", { name: "Receipt of the cancellation" }).waitFor();
  await page.getByText("0 processes left").waitFor();
  await browser.look("a plan that is canceled");
  await browser.go("#/plans");
  await page.getByRole("listitem").filter({ hasText: "Cancel it" }).getByText("1 of 2 items completed").waitFor();
  await browser.look("plans");
}

async function sessions() {
  await browser.go("#/sessions");
  await page.getByText("There is no open session").waitFor();
  await browser.look("no sessions");
  await browser.go("#/new-session");
  await page.getByLabel("Key: the name of the session").fill("calc");
  await page.getByLabel("First message").fill(`[hello] ${scene.evil}`);
  await page.getByLabel("Model").fill("anthropic");
  await browser.look("form for a session");
  await button("Create").click();
  await heading("calc");
  await page.getByText("running", { exact: true }).first().waitFor();
  const send = async (text) => {
    await page.getByRole("textbox", { name: "Message" }).fill(text);
    await button("Send").click();
    await page.getByText(text).waitFor();
  };
  await send("[again] What does it say?");
  await send("[never] Not this");
  await button("Remove the message of turn 3").click();
  await page.getByRole("listitem", { name: "Turn 3" }).getByText("removed", { exact: true }).waitFor();
  await browser.look("a message that waits");
  await release("hello");
  await page.getByText("It says hello.").first().waitFor();
  await page.getByText("Worked for").first().waitFor();
  await browser.look("a session of markup");

  await send("[endless] Work");
  await button("Cancel turn 4").click();
  await button("Cancel it now").click();
  await page.getByRole("heading", { name: "Receipt of the cancellation" }).waitFor();
  await button("Restore turn 1").click();
  await button("Take files and conversation back to turn 1").click();
  await page.getByRole("listitem", { name: "Turn 2" }).getByText("superseded").waitFor();
  await button("Fork turn 1").click();
  await page.getByLabel("Key of the fork").fill("calc-two");
  await button("Create the fork").click();
  await heading("calc-two");
  await page.getByText("Forked from").waitFor();
  await browser.go("#/sessions");
  await page.getByRole("link", { name: "calc-two" }).waitFor();
  await browser.look("sessions");
}

await run(browser, async () => {
  // As hortus ui does it: the plan and its repository are those of the command line on the machine.
  await page.goto(scene.link);
  await heading("Home");
  await plans();
  step("plans");
  await sessions();
  step("sessions");
  if (scene.soak) await canceled();
  want(browser.wrong.length === 0, browser.wrong.join("\n"));
});

// Chooses the branch policy of a repository in one browser: what holds, a dry run, what the operator and the forge refuse, and the choice.
import { Browser, api, run, scene, want } from "./harness.mjs";

const browser = await Browser.open();
const { page } = browser;
const button = (name) => page.getByRole("button", { name, exact: true });
const state = () => api(scene.admin, "GET", `/v1/repositories/${scene.repository}/policy`);

await run(browser, async () => {
  await browser.signIn(scene.admin);
  await browser.go(`#/repository/${scene.repository}`);
  await page.getByRole("link", { name: "Next: Branch policy" }).click();
  await page.getByRole("heading", { name: "What holds" }).waitFor();
  await page.getByText("A task pushes hortus/t").waitFor();
  await page.getByText("the operator allows main, next").waitFor();
  // A name of a branch of the remote is text.
  await page.getByText("<img/").first().waitFor();
  await browser.look("a branch policy");

  // What the operator does not allow is said with the reason.
  browser.failing = true;
  await page.getByLabel("Prefix of branches").fill("fix/");
  await button("Dry run").click();
  await page.getByRole("alert").getByText("does not match hortus/*").waitFor();
  browser.failing = false;
  want(await button("Save").isDisabled(), "what was not tried can be saved");

  // What the forge protects is found by the dry run.
  await page.getByLabel("Prefix of branches").fill("hortus/guarded-");
  await button("Dry run").click();
  await page.getByText("the forge protects the branch").waitFor();

  await page.getByLabel("Prefix of branches").fill("hortus/shop-");
  want(await button("Save").isDisabled(), "a change after the dry run can be saved");
  await page.getByLabel("Target of merge requests").fill("next");
  await page.getByLabel("Drafts").selectOption("yes");
  await page.getByLabel("If the branch exists").selectOption("rename");
  await page.getByLabel("Maximum files").fill("5");
  await page.getByLabel("Also not changed").fill("secret.txt deploy/**");
  await button("Dry run").click();
  const tried = page.getByRole("status", { name: "Dry run of the policy" });
  await tried.getByText("A task pushes hortus/shop-t").waitFor();
  await tried.getByText("opens a draft merge request for next").first().waitFor();
  want(!(await state()).policy, "a dry run is stored");
  await browser.look("a dry run of a branch policy");
  await button("Save").click();
  await page.getByText("Saved", { exact: true }).waitFor();
  const { policy } = await state();
  want(policy.prefix === "hortus/shop-" && policy.target === "next" && policy.draft === true && policy.exists === "rename" && policy.maxFiles === 5 && policy.forbidden.join() === "secret.txt,deploy/**", JSON.stringify(policy));
  await browser.look("a branch policy that is saved");

  await button("Remove the policy").click();
  await button("Remove it").click();
  await page.getByText("A task pushes hortus/t").waitFor();
  await button("Remove the policy").waitFor({ state: "detached" });
  want(!(await state()).policy, "the policy is still stored");

  // A user of the account sees what holds, and cannot change it.
  const r = await fetch(`${scene.url}/v1/repositories/${scene.repository}/policy`, { method: "PUT", headers: { "X-API-Key": scene.user, "Content-Type": "application/json" }, body: JSON.stringify({ policy: { prefix: "hortus/x-" } }) });
  want(r.status === 403, `a user gets ${r.status}`);
  const user = await Browser.open();
  await user.signIn(scene.user);
  await user.go(`#/repository/${scene.repository}/policy`);
  await user.page.getByRole("heading", { name: "What holds" }).waitFor();
  want((await user.page.getByRole("button", { name: "Dry run" }).count()) === 0, "a user sees the form");
  await user.chromium.close();
  want(browser.wrong.length + user.wrong.length === 0, [...browser.wrong, ...user.wrong].join("\n"));
});

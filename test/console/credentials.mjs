// Connects a repository with a GitHub App in one browser, and creates an API key that expires.
import { Browser, api, run, scene, want } from "./harness.mjs";

const browser = await Browser.open();
const { page } = browser;
const button = (name) => page.getByRole("button", { name, exact: true });
const shot = async (name) => {
  if (!process.env.HORTUS_TEST_SHOTS) return;
  for (const scheme of ["light", "dark"])
    for (const width of [1280, 390]) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: 850 });
      await page.screenshot({ path: `${process.env.HORTUS_TEST_SHOTS}/${name}-${width}-${scheme}.png`, fullPage: true });
    }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1200, height: 850 });
};
const secrets = async () => (await api(scene.admin, "GET", "/v1/secrets")).map((s) => s.name).join();

await run(browser, async () => {
  await browser.signIn(scene.admin);
  await browser.go("#/connect");
  await page.getByLabel("Address of the repository").fill(scene.forge);
  await page.getByLabel("Credential").selectOption("app");
  want(await button("Test the access").isDisabled(), "an app can be tested without its ID and key");

  // A key of another app is refused with its reason, and kept nowhere.
  await page.getByLabel("App ID").fill("1234");
  await page.getByLabel("Private key").fill(scene.other);
  await button("Test the access").click();
  await page.getByText("the private key is not one of GitHub App 1234").waitFor();
  want((await button("Connect").count()) === 0, "it can be connected with the key of another app");
  want((await secrets()) === "", "a key that is of no use is kept");
  await browser.look("a key of another app");

  // Each right that the installation lacks is named, with its permission and the page that grants it.
  await page.getByLabel("Address of the repository").fill(scene.lacking);
  await page.getByLabel("or its file (.pem)").setInputFiles(scene.file);
  await button("Test the access").click();
  const rights = page.getByRole("list", { name: "Rights" });
  await rights.getByText("the app's installation lacks Pull requests: write", { exact: false }).waitFor();
  await rights.getByText("/organizations/orchard/settings/installations/56").first().waitFor();
  want((await rights.getByText("missing", { exact: true }).count()) === 3, "not exactly merge requests, issues and checks are missing");
  await browser.look("an installation that lacks rights");
  await shot("app-lacks");

  await page.getByLabel("Address of the repository").fill(scene.forge);
  await button("Test the access").click();
  await page.getByText("Everything that Hortus needs is there.").waitFor();
  await browser.look("an app with all rights");
  await shot("app");
  await button("Connect").click();
  await page.getByRole("heading", { level: 1, name: "shop", exact: true }).waitFor();
  const [row] = await api(scene.admin, "GET", "/v1/repositories");
  want(row.app?.id === 1234 && row.secret === "shop-app-key" && row.state === "ready" && row.forge === "github", JSON.stringify(row));
  want((await secrets()) === "shop-app-key", "the key is not the only secret");
  await browser.go(`#/repository/${row.id}`);
  await page.getByText("GitHub App 1234, its key is in secret shop-app-key").waitFor();
  await button("Test the rights").click();
  await page.getByText("Answer issues").waitFor();
  want(!(await page.content()).includes(scene.key.split("\n")[3]), "the key is in the page");
  await browser.look("a repository with an app");
  // A wrong replacement changes nothing.
  browser.failing = true;
  await page.getByText("Replace the credential").click();
  await page.getByLabel("Credential").selectOption("app");
  await page.getByLabel("App ID").fill("1234");
  await page.getByLabel("Private key").fill(scene.other);
  await button("Store and test").click();
  await page.getByText("cannot read").waitFor();
  browser.failing = false;
  want((await secrets()) === "shop-app-key", "the key of a refused replacement is kept");

  // Keys that expire, soon and already.
  await browser.go("#/settings/keys");
  const keys = page.getByRole("list", { name: "Keys" });
  const old = keys.getByRole("listitem").filter({ hasText: "of last year" });
  await old.getByText("expired", { exact: true }).waitFor();
  await page.getByRole("textbox", { name: "Account" }).or(page.getByLabel("Account")).first().fill("team");
  await page.getByLabel("What it is for").fill("a week of work");
  await page.getByLabel("Expires").selectOption({ label: "in 7 days" });
  await button("Create key").click();
  await page.getByText(/It is not shown again, and expires in 7 d\./).waitFor();
  const made = keys.getByRole("listitem").filter({ hasText: "a week of work" });
  await made.getByText("expires soon", { exact: true }).waitFor();
  const row7 = (await api(scene.admin, "GET", "/v1/keys")).find((k) => k.name === "a week of work");
  want(Math.abs(Date.parse(row7.expiresAt) - Date.parse(row7.createdAt) - 7 * 86_400_000) < 1000, JSON.stringify(row7));
  want((await keys.getByText("does not expire").count()) > 0, "no key is shown that does not expire");
  await browser.look("keys that expire");
  await shot("keys");
});

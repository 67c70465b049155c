/** Sign-in with a provider of OpenID Connect. It begins on this page, and the provider sends the browser back to #/oidc/STATE/CODE/ISSUER. */
import { HortusError } from "hortus";
import { ask } from "./session.svelte.ts";

const path = "/console/oidc";
const stored = "hortus-oidc";

/** What the daemon says of its provider. issuer is empty if there is none. */
interface Offer {
  issuer: string;
  url?: string;
  page?: string;
}

/** What the page keeps until the provider sends the browser back: its part of the secret, and the address to show then. */
interface Begun {
  page: string;
  to: string;
}

/** What the daemon needs to end a sign-in. */
export interface OpenIDAnswer {
  state: string;
  code: string;
  iss?: string;
  page: string;
}

/** The URL of the provider; empty if there is none. */
export async function issuer(): Promise<string> {
  return (await ask<Offer>(path, "GET")).issuer;
}

/** Leaves this page for that of the provider. */
export async function begin(): Promise<void> {
  const offer = await ask<Offer>(path, "POST", {});
  localStorage.setItem(stored, JSON.stringify({ page: offer.page ?? "", to: location.hash } satisfies Begun));
  location.assign(offer.url ?? "");
}

/** Reads the answer of the provider from the address of the page, once; undefined if the address has none. Throws if the provider refused. */
export function answer(parts: readonly string[]): { answer: OpenIDAnswer; to: string } | undefined {
  const [kind, state = "", code = "", iss] = parts;
  if (kind === "oidc-error") {
    localStorage.removeItem(stored);
    throw new HortusError("denied", `the identity provider refused the sign-in (${/^[a-z_]{1,40}$/.test(state) ? state : "invalid"})`, {
      hint: "try again; if it fails again, the administrator checks what the provider's log says of the client",
    });
  }
  if (kind !== "oidc") return undefined;
  const begun = JSON.parse(localStorage.getItem(stored) ?? "{}") as Partial<Begun>;
  localStorage.removeItem(stored);
  // Only an address of this console, whatever the storage has.
  const to = begun.to?.startsWith("#/") && !begun.to.startsWith("#/oidc") ? begun.to : "#/";
  return { answer: { state, code, iss: iss || undefined, page: begun.page ?? "" }, to };
}

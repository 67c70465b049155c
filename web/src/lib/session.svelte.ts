/** Who is signed in. The browser has one half of the session's secret as a cookie, this page the other half in its storage. */
import { HortusError, kinds, type Kind } from "hortus";
import type { OpenIDAnswer } from "./openid.ts";
import { forgetComments } from "./comments.svelte.ts";

export interface SignedIn {
  account: string;
  role: string;
  key: string;
  expiresAt: string;
}

const path = "/console/session";
const stored = "hortus-page";

class Session {
  readonly header = "X-Hortus-Page";
  page = localStorage.getItem(stored) ?? "";
  /** undefined until the daemon has said who it is; null if nobody is. */
  who = $state<SignedIn | null | undefined>(undefined);
  /** True if a session ended while it was used. */
  ended = $state(false);

  constructor() {
    // Another tab has signed in or out.
    addEventListener("storage", (e) => {
      if (e.key !== stored || e.newValue === this.page) return;
      this.page = e.newValue ?? "";
      void this.load();
    });
  }

  /** Asks the daemon who is signed in. */
  async load(): Promise<void> {
    if (!this.page) {
      this.who = null;
      return;
    }
    try {
      this.who = await this.#send("GET");
    } catch (e) {
      if (e instanceof HortusError && e.kind === "unauthenticated") this.lost();
      else throw e;
    }
  }

  async signIn(secret: { key: string } | { ticket: string } | { oidc: OpenIDAnswer }): Promise<void> {
    const got = await this.#send("POST", secret);
    this.#keep(got.page ?? "");
    this.ended = false;
    this.who = got;
  }

  async signOut(): Promise<void> {
    await this.#send("DELETE").catch((e: unknown) => {
      if (!(e instanceof HortusError) || e.kind !== "unauthenticated") throw e;
    });
    this.#keep("");
    forgetComments();
    this.ended = false;
    this.who = null;
  }

  /** Notes that the daemon does not know the session any more. */
  lost(): void {
    if (this.who) this.ended = true;
    this.#keep("");
    this.who = null;
  }

  #keep(page: string): void {
    this.page = page;
    if (page) localStorage.setItem(stored, page);
    else localStorage.removeItem(stored);
  }

  #send(method: string, body?: unknown): Promise<SignedIn & { page?: string }> {
    return ask(path, method, body, { [this.header]: this.page });
  }
}

/** Sends a request of the sign-in. */
export async function ask<T>(to: string, method: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
  let response: Response;
  try {
    response = await fetch(to, {
      method,
      headers: { ...headers, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (cause) {
    throw new HortusError("unavailable", "the daemon does not respond", { hint: "check that it runs: hortus daemon status", cause });
  }
  const answer = response.status === 204 ? {} : ((await response.json().catch(() => ({}))) as Record<string, string>);
  if (response.ok) return answer as unknown as T;
  const kind = kinds.includes(answer["kind"] as Kind) ? (answer["kind"] as Kind) : "internal";
  throw new HortusError(kind, answer["detail"] ?? `unexpected answer ${response.status}`, { hint: answer["hint"], status: response.status });
}

export const session = new Session();

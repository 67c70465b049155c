/** The client of this page: the TypeScript SDK, with the session of the browser in place of an API key. */
import { Hortus, HortusError } from "hortus";
import { session } from "./session.svelte.ts";

export { HortusError };
export type { types } from "hortus";

export const api = new Hortus({
  url: location.origin,
  apiKey: null,
  fetch: async (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set(session.header, session.page);
    const response = await fetch(input, { ...init, headers });
    if (response.status === 401) session.lost();
    return response;
  },
});

/** The error of anything that was thrown, as one of the SDK. */
export function failureOf(e: unknown): HortusError {
  if (e instanceof HortusError) return e;
  return new HortusError("internal", e instanceof Error ? e.message : String(e), { hint: "reload the page" });
}

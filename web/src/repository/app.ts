/** Texts about GitHub Apps. */
import type { types } from "../lib/api.ts";

/** A private key in one line, as secrets have it. */
export function oneLine(key: string): string {
  return key.split(/\s+/).filter(Boolean).join(" ");
}

/** What a repository is reached with. */
export function credential(r: types.Repository): string {
  if (r.app) return `GitHub App ${r.app.id}, its key is in secret ${r.secret}`;
  return r.secret ? `secret ${r.secret}` : "the credentials of the daemon";
}

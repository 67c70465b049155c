/** Texts about API keys. */
import type { types } from "../lib/api.ts";
import { count, duration, size } from "../lib/format.ts";

/** The limits of a key, in words. */
export function ceilings(k: types.Key): string {
  const c = k.ceilings ?? {};
  const all = [
    c.sandboxes ? count(c.sandboxes, "sandbox", "sandboxes") : "",
    c.memoryBytes ? `${size(c.memoryBytes)} memory` : "",
    c.cpus ? count(c.cpus, "processor") : "",
    c.ttlMs ? `${duration(c.ttlMs)} per sandbox` : "",
    c.egress ? "outgoing connections limited" : "",
  ].filter(Boolean);
  return all.length ? all.join(", ") : "no limits";
}

/** A number that a field has; undefined if it is empty. */
export function filled(text: number | null | undefined): number | undefined {
  return typeof text === "number" && Number.isFinite(text) ? text : undefined;
}

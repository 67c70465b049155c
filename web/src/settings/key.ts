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
    c.isolations?.length ? `isolation ${c.isolations.join(" or ")}` : "",
    c.egress ? "outgoing connections limited" : "",
  ].filter(Boolean);
  return all.length ? all.join(", ") : "no limits";
}

/** A key that ends within this time ends soon. */
const soon = 14 * 86_400_000;

/** Whether a key that was not revoked has expired, or will soon. */
export function ends(k: types.Key, now: number): "expired" | "soon" | "" {
  if (!k.expiresAt || k.revokedAt) return "";
  const left = Date.parse(k.expiresAt) - now;
  return left <= 0 ? "expired" : left < soon ? "soon" : "";
}

/** When a key expires, in words. */
export function expiry(k: types.Key, now: number): string {
  if (!k.expiresAt) return "does not expire";
  const left = Date.parse(k.expiresAt) - now;
  if (left <= 0) return `expired ${duration(-left)} ago`;
  return `expires in ${left > 2 * 86_400_000 ? `${Math.round(left / 86_400_000)} d` : duration(left)}`;
}

/** A number that a field has; undefined if it is empty. */
export function filled(text: number | null | undefined): number | undefined {
  return typeof text === "number" && Number.isFinite(text) ? text : undefined;
}

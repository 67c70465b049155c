/** What a connected repository is, in words. */
import type { types } from "./api.ts";
import { since } from "./format.ts";
import type { State } from "./task.ts";

export function repositoryState(r: types.Repository): State {
  switch (r.state) {
    case "ready":
      return { word: "ready", tone: "good" };
    case "fetching":
      return { word: "fetching", tone: "busy" };
    case "failed":
      return { word: "fetch failed", tone: "bad" };
    default:
      return { word: r.state, tone: "quiet" };
  }
}

/** How the preparation of a repository stands. */
export function preparationOf(r: types.Repository, now: number): string {
  const p = r.preparation;
  if (p?.running) return "is prepared now";
  if (p?.error) return `preparation failed ${since(p.endedAt, now)}`;
  if (p?.preparedAt) return `prepared ${since(p.preparedAt, now)}`;
  return "";
}

/** The author of tasks that make no commit. */
export const nobody: types.Identity = { name: "Hortus", email: "hortus@hortus.dev" };

/** The part of a task's request that names a connected repository. */
export const taskOn = (r: types.Repository) => ({ url: r.url, ref: r.branch });

/** The newest task of a kind on a repository. */
export function newest(tasks: types.Task[], r: types.Repository, kind: "gateOnly" | "prepareOnly"): types.Task | undefined {
  return tasks.find((t) => t.create.repo?.url === r.url && t.create.repo[kind]);
}

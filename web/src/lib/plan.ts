/** What a plan is, in words: its state, where its items stand, and the rows of its picture. */
import type { types } from "./api.ts";
import { headline } from "./format.ts";
import type { State, Tone } from "./task.ts";

export function planState(p: types.Plan): State {
  switch (p.state) {
    case "planning":
      return { word: "is divided", tone: "busy" };
    case "proposed":
      return { word: "proposed", tone: "wait" };
    case "queued":
      return { word: "waits for others", tone: "wait" };
    case "running":
      return { word: "running", tone: "busy" };
    case "paused":
      return { word: "paused", tone: "wait" };
  }
  switch (p.outcome) {
    case "verified":
      return { word: "verified", tone: "good" };
    case "needs_human":
      return { word: "needs you", tone: "wait" };
    case "canceled":
      return { word: "canceled", tone: "quiet" };
    case undefined:
      return { word: "done", tone: "quiet" };
    default:
      return { word: p.outcome, tone: "bad" };
  }
}

const phases: Record<string, string> = { works: "agent works", merges: "is merged", checks: "is checked", asks: "asks for files" };
const tones: Record<string, Tone> = { pending: "quiet", in_progress: "busy", completed: "good", skipped: "quiet", failed: "bad" };

export function itemState(it: types.PlanProgress): State {
  if (it.phase === "asks") return { word: phases.asks!, tone: "wait" };
  return { word: it.state === "in_progress" && it.phase ? (phases[it.phase] ?? it.phase) : it.state.replaceAll("_", " "), tone: tones[it.state] ?? "quiet" };
}

export const nameOf = (it: types.PlanItem) => it.title || headline(it.request);

/** The request for files of an item that waits for a person. */
export const waiting = (it: types.PlanProgress) => (it.phase === "asks" ? it.amendments?.findLast((a) => !a.answer) : undefined);

/** The items that are completed, of all: of a list's plan, which has no items, too. */
export function doneOf(p: types.Plan): string {
  const all = Object.values(p.counts).reduce((n, c) => n + c, 0);
  return `${p.counts.completed ?? 0} of ${all} items completed`;
}

/** The items in the order of `hortus plan show`: an item is below all that it needs. */
export function levels<T extends { id: string; needs?: string[] }>(items: T[]): T[][] {
  const at = new Map<string, number>();
  for (let before = -1; before < at.size; ) {
    before = at.size;
    for (const it of items) {
      const needs = (it.needs ?? []).map((n) => at.get(n));
      if (!at.has(it.id) && needs.every((n) => n !== undefined)) at.set(it.id, Math.max(-1, ...needs) + 1);
    }
  }
  const rows: T[][] = [];
  for (const it of items) {
    const level = at.get(it.id);
    if (level !== undefined) (rows[level] ??= []).push(it);
  }
  return rows;
}

/** The fields of items that a person may change, as `hortus plan show --items` prints them. */
export function editable(items: types.PlanProgress[]): types.PlanItem[] {
  return items.map(({ id, title, request, needs, touches, creates, acceptance, context, agent, model, minutes }) => ({ id, title, request, needs, touches, creates, acceptance, context, agent, model, minutes }));
}

/** One event of a plan in a line. */
export function describePlan(e: types.Event): { text: string; tone?: Tone; task?: string } | undefined {
  switch (e.type) {
    case "plan.created":
      return { text: "Created" };
    case "plan.planned":
      return e.data?.refused ? { text: `The model's items were rejected: ${e.data.refused}`, tone: "wait" } : { text: `${e.data?.items?.length ?? 0} items planned` };
    case "plan.edited":
      return { text: `The items were changed (version ${e.data?.version})` };
    case "plan.state":
      return { text: `${e.data?.state}${e.data?.why ? `: ${e.data.why}` : ""}` };
    case "plan.item": {
      const d = e.data;
      if (!d) return;
      const s = itemState({ id: d.item, request: "", state: d.state, phase: d.phase });
      return { text: `${d.item}: ${s.word}${d.why ? `: ${d.why}` : ""}${d.commit ? ` (commit ${d.commit.slice(0, 10)})` : ""}`, tone: s.tone, task: d.task };
    }
    case "plan.amendment": {
      const d = e.data;
      if (!d) return;
      return d.answer
        ? { text: `${d.item}: ${d.paths.join(", ")} ${d.answer} by ${d.by}${d.reason ? `: ${d.reason}` : ""}`, tone: d.answer === "granted" ? "good" : "bad" }
        : { text: `${d.item} asks for ${d.paths.join(", ")}${d.why ? `: ${d.why}` : ""}`, tone: "wait" };
    }
    case "plan.finished":
      return e.data ? { text: `Finished: ${planState(e.data).word}`, tone: planState(e.data).tone } : { text: "Finished" };
  }
  return undefined;
}

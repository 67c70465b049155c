/** What a task is, in words: its request, where it stands, and why. */
import type { types } from "./api.ts";
import { cost, count, duration, headline, span } from "./format.ts";

export type Tone = "good" | "bad" | "busy" | "wait" | "quiet";

export interface State {
  word: string;
  tone: Tone;
}

export const requestOf = (t: types.Task) => t.create.request ?? t.create.replay?.task ?? t.id;

export function stateOf(t: types.Task): State {
  if (t.state === "pending") return { word: "waiting", tone: "wait" };
  if (t.state === "running") return { word: "running", tone: "busy" };
  switch (t.outcome) {
    case "verified":
      return { word: "verified", tone: "good" };
    case "answered":
      return { word: "answered", tone: "good" };
    case "needs_human":
      return { word: t.question ? "has a question" : "needs you", tone: "wait" };
    case "canceled":
      return { word: "canceled", tone: "quiet" };
    case undefined:
      return { word: "done", tone: "quiet" };
    default:
      return { word: t.outcome, tone: "bad" };
  }
}

/** Why the task is in its state. */
export function causeOf(t: types.Task, now: number): string {
  if (t.error) return t.error.message;
  const round = t.repo?.rounds?.at(-1);
  const attempt = t.attempts?.at(-1);
  switch (t.state) {
    case "pending":
      return "waits for a place among the tasks that run";
    case "running":
      if (round) return `round ${round.n}: ${round.stop ? `the agent stopped (${round.stop})` : "the agent works"}`;
      if (attempt) return attempt.result ? `attempt ${attempt.n} failed (${attempt.result.category ?? "error"}); it is repaired` : `attempt ${attempt.n} runs`;
      return `runs for ${duration(span(t.createdAt, undefined, now))}`;
  }
  if (t.question) return t.question;
  if (t.repo) {
    const gate = round?.gate;
    if (gate && !gate.passed) return `the gate failed: ${gate.command} ended with ${gate.exit.code}`;
    if (t.repo.stopped) return t.repo.stopped;
    if (t.repo.title) return t.repo.title;
  }
  if (t.diagnosis) return headline(t.diagnosis);
  if (attempt?.result && !attempt.result.ok) return attempt.result.detail ?? `the program ended with ${attempt.result.exit.code}`;
  return "";
}

export function gateFailed(t: types.Task): boolean {
  return t.state === "done" && t.outcome === "failed" && t.repo?.rounds?.at(-1)?.gate?.passed === false;
}

export function usageOf(u: types.Usage | undefined): string {
  if (!u?.requests) return "no model calls";
  const tokens = (u.inputTokens ?? 0) + (u.outputTokens ?? 0);
  return [count(u.requests, "model call"), count(tokens, "token"), u.unpriced ? `${cost(u.costUsd)} and ${count(u.unpriced, "call")} without a price` : cost(u.costUsd)].join(", ");
}

/** Where a task continues, and why. */
export function moveText(m: types.TaskMove | undefined): string {
  if (!m) return "Continued after a restart of the daemon";
  if (m.from === m.to) return `Continues on node ${m.to}, which drains, because no other node took it`;
  return `Continues on node ${m.to}, because node ${m.from} ${m.why === "drained" ? "was drained" : "ended or could not reach the database"}`;
}

/** An event that a person may want to see, in one line. "" for others. */
export function describe(e: types.Event): { text: string; detail?: string; tone?: Tone } | undefined {
  switch (e.type) {
    case "task.created":
      return { text: "Created" };
    case "task.started":
      return { text: "Started" };
    case "task.plan":
      return { text: `Plan: ${e.data?.task ?? ""}`, detail: e.data?.output };
    case "task.code":
      return { text: `Code written for attempt ${e.data?.attempt}`, detail: e.data?.artifact?.files.map((f) => `${f.path}\n${f.content ?? ""}`).join("\n\n") };
    case "task.escalation":
      return { text: `${e.data?.role} moves from ${e.data?.from} to ${e.data?.to}`, detail: e.data?.why };
    case "task.attempt":
      return { text: `Attempt ${e.data?.attempt} of ${e.data?.of}${e.data?.isolation ? ` in a sandbox (${e.data.isolation})` : ""}` };
    case "task.phase":
      return { text: `${e.data?.phase === "install" ? "Installing" : "Running"}`, detail: e.data?.command };
    case "task.result": {
      const r = e.data?.result;
      return { text: r?.ok ? "The program passed" : `The program failed: ${r?.detail ?? r?.category ?? `exit ${r?.exit.code}`}`, tone: r?.ok ? "good" : "bad" };
    }
    case "task.diagnosis":
      return { text: `Cause: ${e.data?.diagnosis?.cause ?? "unknown"}` };
    case "task.model_retry":
      return { text: `${e.data?.role}: call of ${e.data?.model} failed, attempt ${e.data?.attempt} of ${e.data?.of} in ${duration(e.data?.waitMs ?? 0)}`, detail: e.data?.error, tone: "wait" };
    case "task.retry":
      return { text: `${e.data?.what} failed, attempt ${e.data?.attempt} of ${e.data?.of} in ${duration(e.data?.waitMs ?? 0)}`, detail: e.data?.error, tone: "wait" };
    case "task.candidate":
      return { text: `Candidate ${e.data?.n}: ${e.data?.state}${e.data?.chosen ? ", chosen" : ""}`, tone: e.data?.passed ? "good" : undefined };
    case "task.compact":
      return { text: `The history was shortened from ${e.data?.tokensBefore} to ${e.data?.tokensAfter} tokens` };
    case "task.todo":
      return { text: "List of work", detail: e.data?.items.map((i) => `${i.state === "completed" ? "☑" : i.state === "in_progress" ? "▸" : "☐"} ${i.text}`).join("\n") };
    case "task.left":
      return { text: e.data?.why ?? "The daemon stopped", tone: "wait" };
    case "task.resumed":
      return { text: moveText(e.data?.move), tone: "wait" };
    case "task.lessons":
      return { text: count(e.data?.lessons.length ?? 0, "lesson of an earlier task", "lessons of earlier tasks") };
    case "task.cancel":
      return { text: "Cancellation began", tone: "wait" };
    case "task.finished":
      return { text: `Finished: ${e.data ? stateOf(e.data).word : "done"}`, tone: e.data ? stateOf(e.data).tone : undefined };
  }
  return undefined;
}

/** What a session and its turns are, in words. */
import type { types } from "./api.ts";
import type { State } from "./task.ts";

export function sessionState(s: types.Session): State {
  switch (s.state) {
    case "running":
      return { word: "running", tone: "busy" };
    case "warm":
      return { word: "ready", tone: "good" };
    case "closed":
      return { word: "closed", tone: "quiet" };
    default:
      return { word: s.state, tone: "quiet" };
  }
}

export function turnState(t: types.SessionTurn): State {
  if (t.state === "queued") return { word: "waits", tone: "wait" };
  if (t.state === "running") return { word: "running", tone: "busy" };
  if (t.state === "removed") return { word: "removed", tone: "quiet" };
  switch (t.outcome) {
    case "verified":
    case "answered":
      return { word: t.outcome, tone: "good" };
    case "needs_human":
      return { word: "needs you", tone: "wait" };
    case "canceled":
    case undefined:
      return { word: t.outcome ?? "done", tone: "quiet" };
    default:
      return { word: t.outcome, tone: "bad" };
  }
}

/** What a sandbox is, in words. */
import type { types } from "./api.ts";
import type { State } from "./task.ts";

export function sandboxState(s: types.Sandbox): State {
  switch (s.state) {
    case "running":
      return { word: "running", tone: "good" };
    case "starting":
      return { word: "starting", tone: "busy" };
    case "paused":
      return { word: s.snapshot ? "paused to disk" : "paused", tone: "wait" };
    case "lost":
      return { word: "lost", tone: "bad" };
  }
  return { word: "ended", tone: "quiet" };
}

export const final = (s: types.Sandbox) => s.state === "ended" || s.state === "lost";

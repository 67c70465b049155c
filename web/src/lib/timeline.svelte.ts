/** The event log of a task as a person reads it: what the agent does between two things that it says is one entry. */
import type { types } from "./api.ts";
import { describe, type Tone } from "./task.ts";
import { fromBase64, plain } from "./format.ts";

export type Entry =
  | { kind: "fact"; seq: number; at: string; text: string; detail?: string; tone?: Tone }
  | { kind: "say"; seq: number; at: string; text: string }
  | { kind: "work"; seq: number; at: string; until: string; tools: types.ToolEvent[]; calls: number; tokens: number; costUsd: number; failed: number }
  | { kind: "step"; seq: number; at: string; step: string; done: boolean; detail?: string; error?: string; lines: string; gate?: types.Gate; ms?: number }
  | { kind: "output"; seq: number; at: string; stream: string; text: string };

/** The text of one entry with output is cut at the front beyond this. The whole output is a download. */
const longest = 64 << 10;
/** The minimum time between two times that entries are shown. */
const pause = 250;

export class Timeline {
  entries = $state.raw<Entry[]>([]);
  /** What happened last, in one line. */
  last = $state("");
  #entries: Entry[] = [];
  #scheduled = false;
  #shown = -pause;

  add(e: types.Event): void {
    this.#put(e);
    if (this.#scheduled) return;
    this.#scheduled = true;
    // Thousands of stored events are shown in a few steps, a single one at once.
    setTimeout(() => {
      this.#scheduled = false;
      this.#shown = performance.now();
      this.entries = [...this.#entries];
    }, Math.max(16, this.#shown + pause - performance.now()));
  }

  #put(e: types.Event): void {
    const last = this.#entries.at(-1);
    const put = (entry: Entry) => {
      this.#entries.push(entry);
    };
    // An entry that goes on is a new object, so that what shows it notices.
    const replace = (entry: Entry) => {
      this.#entries[this.#entries.length - 1] = entry;
    };
    switch (e.type) {
      case "task.tool":
      case "task.model": {
        const work = last?.kind === "work" ? last : undefined;
        const next = work ? { ...work, until: e.at } : { kind: "work" as const, seq: e.seq, at: e.at, until: e.at, tools: [], calls: 0, tokens: 0, costUsd: 0, failed: 0 };
        if (e.type === "task.tool" && e.data) {
          next.tools = [...next.tools, e.data];
          next.failed += e.data.failed ? 1 : 0;
          this.last = `the agent used ${e.data.tool}`;
        } else if (e.type === "task.model" && e.data) {
          next.calls++;
          next.tokens += (e.data.usage?.inputTokens ?? 0) + (e.data.usage?.outputTokens ?? 0);
          next.costUsd += e.data.usage?.costUsd ?? 0;
          this.last = `${e.data.role} asked ${e.data.model}`;
        }
        if (work) replace(next);
        else put(next);
        return;
      }
      case "task.say":
        put({ kind: "say", seq: e.seq, at: e.at, text: (e.data?.text ?? "") + (e.data?.cut ? "\n…" : "") });
        this.last = "the agent said something";
        return;
      case "task.step": {
        const d = e.data;
        if (!d) return;
        const same = last?.kind === "step" && last.step === d.step && !last.done ? last : undefined;
        const next = {
          kind: "step" as const, seq: same?.seq ?? e.seq, at: same?.at ?? e.at, step: d.step, done: d.done ?? false, detail: d.detail ?? same?.detail, error: d.error,
          lines: ((same?.lines ?? "") + (d.line === undefined ? "" : `${plain(d.line)}\n`)).slice(-longest), gate: d.gate, ms: d.ms,
        };
        if (same) replace(next);
        else put(next);
        this.last = `${d.step}${d.done ? " is done" : ""}`;
        return;
      }
      case "task.output": {
        if (!e.data) return;
        const text = plain(fromBase64(e.data.data));
        if (last?.kind === "output" && last.stream === e.data.stream) replace({ ...last, text: (last.text + text).slice(-longest) });
        else put({ kind: "output", seq: e.seq, at: e.at, stream: e.data.stream, text });
        this.last = "the program writes";
        return;
      }
    }
    const fact = describe(e);
    if (!fact) return;
    put({ kind: "fact", seq: e.seq, at: e.at, ...fact });
    this.last = fact.text;
  }
}

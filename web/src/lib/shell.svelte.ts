/** A shell in a sandbox: a command with a terminal, whose output is read from an offset on, over connections that break. */
import { HortusError, type Command } from "hortus";
import { api, failureOf } from "./api.ts";
import { plain } from "./format.ts";
import { onHidden, seen } from "./visible.ts";

export interface Size {
  cols: number;
  rows: number;
}

/** The log is cut at the front beyond this, in characters. */
const longest = 200_000;
/** The most characters of one request; each has three bytes at most. */
const most = 20_000;
const firstWait = 500;
const longestWait = 10_000;

export class Shell {
  state = $state<"starting" | "open" | "broken" | "ended" | "failed">("starting");
  error = $state.raw<HortusError | undefined>(undefined);
  exitCode = $state<number | undefined>(undefined);
  /** What the shell wrote, as text. */
  log = $state("");

  #id: string;
  #write: (data: Uint8Array) => void;
  #command: Command | undefined;
  #stop = new AbortController();
  #pending: string[] = [];
  #sending = false;
  #size: Size | undefined;
  #decoder = new TextDecoder();

  constructor(sandbox: string, write: (data: Uint8Array) => void) {
    this.#id = sandbox;
    this.#write = write;
  }

  get #stored(): string {
    return `hortus-shell-${this.#id}`;
  }

  /** Attaches to the shell that this tab had, or starts one, and reads until close is called. */
  async open(size: Size, fresh = false): Promise<void> {
    try {
      const box = await api.sandboxes.get(this.#id);
      const known = fresh ? null : sessionStorage.getItem(this.#stored);
      let command: Command | undefined;
      if (known) {
        command = box.command(known);
        const row = await command.info().catch(() => undefined);
        if (row?.state !== "running") command = undefined;
      }
      // A login shell if there is bash, otherwise whatever sh is.
      command ??= await box.start("command -v bash >/dev/null && exec bash -l; exec sh -l", { pty: size, env: { TERM: "xterm-256color" } });
      sessionStorage.setItem(this.#stored, command.id);
      this.#command = command;
      this.state = "open";
      if (command.id === known) await this.resize(size);
      else this.#size = size;
      await this.#follow(command);
    } catch (e) {
      if (this.#stop.signal.aborted) return;
      this.error = failureOf(e);
      this.state = "failed";
    }
  }

  async #follow(command: Command): Promise<void> {
    const signal = this.#stop.signal;
    let offset = 0;
    for (let wait = firstWait; !signal.aborted; ) {
      await seen(signal);
      const hidden = new AbortController();
      const end = onHidden(() => hidden.abort());
      try {
        for await (const e of command.events({ offset, signal: AbortSignal.any([signal, hidden.signal]) })) {
          this.state = "open";
          wait = firstWait;
          if (e.type === "output") {
            if (e.offset + e.data.length <= offset) continue;
            const data = e.data.subarray(Math.max(0, offset - e.offset));
            offset = e.offset + e.data.length;
            this.#write(data);
            this.log = (this.log + plain(this.#decoder.decode(data, { stream: true }))).slice(-longest);
          } else if (e.type === "gap") {
            offset = e.to;
            this.#write(new TextEncoder().encode(`\r\n[${e.to - e.from} bytes are not kept any more]\r\n`));
          } else {
            this.exitCode = e.exec.exit?.code;
            this.state = "ended";
            sessionStorage.removeItem(this.#stored);
            return;
          }
        }
      } catch (e) {
        if (signal.aborted) return;
        if (!hidden.signal.aborted && failureOf(e).kind !== "unavailable" && failureOf(e).kind !== "timeout") throw e;
      } finally {
        end();
      }
      if (signal.aborted) return;
      if (hidden.signal.aborted) continue;
      this.state = "broken";
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(2 * wait, longestWait);
    }
  }

  /** Sends what a person typed, in order. While one request is under way, the next ones wait and are sent together. */
  type(data: string): void {
    if (this.state === "ended" || this.state === "failed") return;
    this.#pending.push(data);
    if (!this.#sending) void this.#send();
  }

  async #send(): Promise<void> {
    this.#sending = true;
    while (this.#pending.length > 0 && this.#command) {
      const all = this.#pending.splice(0).join("");
      const data = all.slice(0, most);
      if (all.length > most) this.#pending.unshift(all.slice(most));
      try {
        await this.#command.write(data, { pty: true });
      } catch (e) {
        if (failureOf(e).kind === "unavailable" && !this.#stop.signal.aborted) {
          // It may have arrived. To type it twice would be worse than to lose it.
          this.state = "broken";
          this.#pending = [];
        }
      }
    }
    this.#sending = false;
  }

  async resize(size: Size): Promise<void> {
    if (!this.#command || (this.#size?.cols === size.cols && this.#size.rows === size.rows)) return;
    this.#size = size;
    await this.#command.resize(size).catch(() => {}); // the shell may just have ended
  }

  /** Stops reading. The shell continues. */
  close(): void {
    this.#stop.abort();
  }
}

/**
 * What changes in the daemon, over one connection for the whole page: the events of the streams that the page follows, in order and
 * each one once, and which other rows change. A connection that breaks is made again with the numbers of the last events.
 */
import { api, failureOf, type types } from "./api.ts";
import { onHidden, seen } from "./visible.ts";

export type Connection = "connecting" | "live" | "broken";

interface Followed {
  kind: string;
  id: string;
  after: number;
  listeners: Set<(e: types.Event) => void>;
}

/** The kinds of streams that changed, by ID. any means that everything may have. */
export interface Change {
  any: boolean;
  streams: types.Stream[];
}

const firstWait = 500;
const longestWait = 10_000;

class Live {
  connection = $state<Connection>("connecting");
  #followed = new Map<string, Followed>();
  #watchers = new Set<(c: Change) => void>();
  #abort: AbortController | undefined;
  #restart: ReturnType<typeof setTimeout> | undefined;
  #wake: (() => void) | undefined;

  constructor() {
    // A laptop that was closed, and a network that is back, need not wait.
    addEventListener("online", () => this.#wake?.());
    document.addEventListener("visibilitychange", () => this.#wake?.());
  }

  /** Connects until the returned function is called. */
  start(): () => void {
    const stop = new AbortController();
    void this.#run(stop.signal);
    return () => {
      stop.abort();
      this.#abort?.abort();
      this.#wake?.();
    };
  }

  /** Calls a function with each event of a stream, from the first one on, until the returned function is called. */
  follow(kind: string, id: string, listener: (e: types.Event) => void): () => void {
    const key = `${kind}/${id}`;
    this.#followed.set(key, { kind, id, after: 0, listeners: new Set([listener]) });
    this.#reconnect();
    return () => {
      this.#followed.delete(key);
      this.#reconnect();
    };
  }

  /** Calls a function when rows may have changed, until the returned function is called. */
  changed(listener: (c: Change) => void): () => void {
    this.#watchers.add(listener);
    return () => this.#watchers.delete(listener);
  }

  /** Connects again with other streams, once for all that a page changes at a time. */
  #reconnect(): void {
    clearTimeout(this.#restart);
    this.#restart = setTimeout(() => this.#abort?.abort(), 0);
  }

  async #run(stop: AbortSignal): Promise<void> {
    for (let wait = firstWait; !stop.aborted; ) {
      await seen(stop);
      const abort = new AbortController();
      this.#abort = abort;
      const end = onHidden(() => abort.abort());
      try {
        const streams = [...this.#followed.values()].map(({ kind, id, after }) => ({ kind, id, after }));
        for await (const m of api.watch(streams, { signal: abort.signal })) {
          this.connection = "live";
          wait = firstWait;
          this.#take(m);
        }
      } catch (e) {
        if (failureOf(e).kind === "unauthenticated") return;
        // Of a stream that is not there the page itself says so.
        if (failureOf(e).kind === "not_found") this.#followed.clear();
      } finally {
        end();
      }
      if (stop.aborted) return;
      if (abort.signal.aborted) continue; // other streams, or nobody looks
      this.connection = "broken";
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, wait);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      wait = Math.min(2 * wait, longestWait);
    }
  }

  #take(m: types.Watched): void {
    const e = m.event;
    if (e) {
      const f = this.#followed.get(`${e.stream.kind}/${e.stream.id}`);
      if (!f || e.seq <= f.after) return;
      f.after = e.seq;
      for (const listener of f.listeners) listener(e);
    }
    if (m.any || m.changed) {
      const change = { any: m.any ?? false, streams: m.changed ?? [] };
      for (const listener of this.#watchers) listener(change);
    }
  }
}

export const live = new Live();

/** Data of a page: loaded first, then loaded again when something of its kind changes. */
import { failureOf, type HortusError } from "./api.ts";
import { live, type Change } from "./live.svelte.ts";

/** A load takes this long before the page says so. */
const patience = 1000;
/** The minimum time between two loads because of changes. */
const pause = 300;

export class Resource<T> {
  value = $state.raw<T | undefined>(undefined);
  error = $state.raw<HortusError | undefined>(undefined);
  /** True if the first load takes longer than a second. */
  slow = $state(false);

  #load: () => Promise<T>;
  #concerns: (c: Change) => boolean;
  #running = false;
  #again = false;
  #stopped = false;

  constructor(load: () => Promise<T>, concerns: (c: Change) => boolean = () => false) {
    this.#load = load;
    this.#concerns = concerns;
  }

  /** Loads and follows changes until the returned function is called: use it as the function of an effect. */
  start = (): (() => void) => {
    this.#stopped = false;
    const timer = setTimeout(() => (this.slow = this.value === undefined && !this.error), patience);
    const end = live.changed((c) => {
      if (c.any || this.#concerns(c)) void this.reload();
    });
    void this.reload().finally(() => clearTimeout(timer));
    return () => {
      this.#stopped = true;
      clearTimeout(timer);
      end();
    };
  };

  /** Loads. What changes during a load is loaded after it. */
  reload = async (): Promise<void> => {
    if (this.#running) {
      this.#again = true;
      return;
    }
    this.#running = true;
    try {
      do {
        this.#again = false;
        try {
          const value = await this.#load();
          if (this.#stopped) return;
          this.value = value;
          this.error = undefined;
        } catch (e) {
          if (this.#stopped) return;
          this.error = failureOf(e);
        }
        this.slow = false;
        if (this.#again) await new Promise((resolve) => setTimeout(resolve, pause));
      } while (this.#again);
    } finally {
      this.#running = false;
    }
  };
}

/** Reports whether a change is about rows of a kind, or about one of them. */
export function about(kind: string, id?: string): (c: Change) => boolean {
  return (c) => c.streams.some((s) => s.kind === kind && (id === undefined || s.id === id));
}

/** Comments on lines of the patch of a task, kept in the storage of the page until they are sent. */

export interface Comment {
  path: string;
  /** The file that the line belongs to: before or after the change. */
  side: "old" | "new";
  line: number;
  quote: string;
  text: string;
}

export type Place = Pick<Comment, "path" | "side" | "line">;

const prefix = "hortus-comments-";

/** Removes the comments on all tasks: the next person at this browser may be another one. */
export function forgetComments(): void {
  for (const key of Object.keys(localStorage)) if (key.startsWith(prefix)) localStorage.removeItem(key);
}

const same = (a: Place, b: Place) => a.path === b.path && a.side === b.side && a.line === b.line;

export class Comments {
  all = $state<Comment[]>([]);
  /** The text that stands before the comments. */
  text = $state("");
  #stored: string;

  constructor(task: string) {
    this.#stored = prefix + task;
    this.#read();
  }

  at(place: Place): Comment | undefined {
    return this.all.find((c) => same(c, place));
  }

  /** Stores a comment in the place of an earlier one on the same line. */
  put(comment: Comment): void {
    this.#read(); // what another tab has stored meanwhile stays
    this.all = [...this.all.filter((c) => !same(c, comment)), comment].sort((a, b) => (a.path === b.path ? a.line - b.line : a.path < b.path ? -1 : 1));
    this.#write();
  }

  remove(place: Place): void {
    this.#read();
    this.all = this.all.filter((c) => !same(c, place));
    this.#write();
  }

  clear(): void {
    this.all = [];
    this.text = "";
    localStorage.removeItem(this.#stored);
  }

  /** The message for the agent: each comment with its file, its line and the quoted line. */
  get message(): string {
    const parts = this.all.map((c) => `${c.path}, line ${c.line}${c.side === "old" ? " before the change" : ""}:\n> ${c.quote}\n${c.text}`);
    return [this.text.trim(), ...parts].filter(Boolean).join("\n\n");
  }

  #read(): void {
    try {
      const all: unknown = JSON.parse(localStorage.getItem(this.#stored) ?? "[]");
      if (Array.isArray(all)) this.all = all as Comment[];
    } catch {
      // What cannot be read was not written by this page. It is replaced by the next comment.
    }
  }

  #write(): void {
    if (this.all.length === 0) localStorage.removeItem(this.#stored);
    else localStorage.setItem(this.#stored, JSON.stringify(this.all));
  }
}

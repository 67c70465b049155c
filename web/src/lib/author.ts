/** Who signs the commits of tasks, as this browser knows it. */
import type { types } from "./api.ts";

const stored = "hortus-author";

export function loadAuthor(): types.Identity {
  try {
    const a = JSON.parse(localStorage.getItem(stored) ?? "{}") as Partial<types.Identity>;
    return { name: a.name ?? "", email: a.email ?? "" };
  } catch {
    return { name: "", email: "" };
  }
}

export function saveAuthor(author: types.Identity): void {
  localStorage.setItem(stored, JSON.stringify(author));
}

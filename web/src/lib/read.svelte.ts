/** Which outcomes the person has looked at, in this browser. */
const stored = "hortus-read";
const most = 500;

class Read {
  ids = $state.raw<string[]>(load());

  has(id: string): boolean {
    return this.ids.includes(id);
  }

  add(...ids: string[]): void {
    const fresh = ids.filter((id) => !this.ids.includes(id));
    if (fresh.length === 0) return;
    this.ids = [...this.ids, ...fresh].slice(-most);
    localStorage.setItem(stored, JSON.stringify(this.ids));
  }
}

function load(): string[] {
  try {
    const ids: unknown = JSON.parse(localStorage.getItem(stored) ?? "[]");
    return Array.isArray(ids) ? ids.filter((id) => typeof id === "string") : [];
  } catch {
    return [];
  }
}

export const read = new Read();

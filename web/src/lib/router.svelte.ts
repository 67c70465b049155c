/** The address of the page: what follows #/ in the URL, so that every page can be linked to. */
class Router {
  parts = $state<string[]>(read());

  constructor() {
    addEventListener("hashchange", () => {
      this.parts = read();
      scrollTo(0, 0);
    });
  }

  /** Goes to a page. replace leaves no entry in the history. */
  go(path: string, replace = false): void {
    if (replace) {
      history.replaceState(null, "", path);
      this.parts = read();
    } else location.hash = path.slice(1);
  }
}

function read(): string[] {
  const text = location.hash.replace(/^#\/?/, "");
  return text === "" ? [] : text.split("/").map(decode);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Makes the address of a page. */
export function link(...parts: string[]): string {
  return "#/" + parts.map(encodeURIComponent).join("/");
}

export const router = new Router();

/** Reads a patch of git. */

export interface Line {
  type: "same" | "added" | "removed" | "note";
  text: string;
  /** Its numbers in the old and the new file. */
  old?: number;
  new?: number;
}

export interface Hunk {
  head: string;
  lines: Line[];
}

export interface FileDiff {
  path: string;
  from?: string;
  kind: "changed" | "added" | "removed" | "renamed";
  binary: boolean;
  hunks: Hunk[];
  added: number;
  removed: number;
}

/** Two lines side by side. */
export interface Pair {
  left?: Line;
  right?: Line;
}

export function parsePatch(patch: string): FileDiff[] {
  const files: FileDiff[] = [];
  let file: FileDiff | undefined;
  let hunk: Hunk | undefined;
  let before = 0;
  let after = 0;
  // How many lines of the hunk are still to come. A line of it may look like a header.
  let left = 0;
  let right = 0;
  const lines = patch.split("\n");
  if (lines.at(-1) === "") lines.pop();
  for (const text of lines) {
    if (file && hunk && (left > 0 || right > 0)) {
      const mark = text[0] ?? " ";
      const rest = text.slice(1);
      if (mark === "+") {
        hunk.lines.push({ type: "added", text: rest, new: after++ });
        file.added++;
        right--;
      } else if (mark === "-") {
        hunk.lines.push({ type: "removed", text: rest, old: before++ });
        file.removed++;
        left--;
      } else if (mark === "\\") hunk.lines.push({ type: "note", text: rest.trim() });
      else {
        hunk.lines.push({ type: "same", text: rest, old: before++, new: after++ });
        left--;
        right--;
      }
      continue;
    }
    const header = /^diff --git (.*)$/.exec(text);
    if (header) {
      file = { path: pathOf(header[1] ?? ""), kind: "changed", binary: false, hunks: [], added: 0, removed: 0 };
      files.push(file);
      hunk = undefined;
      continue;
    }
    if (!file) continue;
    const at = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$/.exec(text);
    if (at) {
      before = Number(at[1]);
      left = Number(at[2] ?? 1);
      after = Number(at[3]);
      right = Number(at[4] ?? 1);
      hunk = { head: (at[5] ?? "").trim(), lines: [] };
      file.hunks.push(hunk);
    } else if (text.startsWith("\\") && hunk) hunk.lines.push({ type: "note", text: text.slice(1).trim() });
    else if (text.startsWith("new file")) file.kind = "added";
    else if (text.startsWith("deleted file")) file.kind = "removed";
    else if (text.startsWith("rename from ")) {
      file.kind = "renamed";
      file.from = unquote(text.slice(12));
    } else if (text.startsWith("rename to ")) file.path = unquote(text.slice(10));
    else if (text.startsWith("+++ b/") || text.startsWith('+++ "b/')) file.path = unquote(text.slice(4)).slice(2);
    else if (text.startsWith("Binary files ") || text.startsWith("GIT binary patch")) file.binary = true;
  }
  return files;
}

/** The path of "a/PATH b/PATH", which is the same twice unless a later line says otherwise. */
function pathOf(names: string): string {
  if (names.startsWith('"')) return unquote(names.slice(names.indexOf(' "') + 1)).slice(2);
  return names.slice((names.length + 1) / 2 + 2);
}

/** Reads a path that git has quoted as C does. */
function unquote(text: string): string {
  const name = text.replace(/\t$/, "");
  if (!name.startsWith('"') || !name.endsWith('"')) return name;
  const bytes: number[] = [];
  const encoder = new TextEncoder();
  const letters: Record<string, number> = { n: 10, t: 9, r: 13, a: 7, b: 8, f: 12, v: 11 };
  for (const [piece, octal, letter] of name.slice(1, -1).matchAll(/\\(?:([0-7]{3})|(.))|[^\\]+/g)) {
    if (octal !== undefined) bytes.push(Number.parseInt(octal, 8));
    else if (letter !== undefined) bytes.push(...(letter in letters ? [letters[letter]!] : encoder.encode(letter)));
    else bytes.push(...encoder.encode(piece));
  }
  return new TextDecoder().decode(Uint8Array.from(bytes));
}

/** Puts the lines of a hunk side by side: a removed line beside the added one that stands in its place. */
export function sideBySide(hunk: Hunk): Pair[] {
  const pairs: Pair[] = [];
  let open = 0; // the first pair of the current change
  for (const line of hunk.lines) {
    if (line.type === "removed") pairs.push({ left: line });
    else if (line.type === "added") {
      while (open < pairs.length && pairs[open]?.right) open++;
      const beside = pairs[open];
      if (beside) beside.right = line;
      else pairs.push({ right: line });
    } else {
      pairs.push({ left: line, right: line });
      open = pairs.length;
    }
  }
  return pairs;
}

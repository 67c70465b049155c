/** The tree of what was forked from one sandbox, or restored from snapshots of it: where each thing stands in a picture. */
import type { types } from "./api.ts";

export type Thing = { kind: "sandbox"; row: types.Sandbox } | { kind: "snapshot"; row: types.Snapshot };

export interface Node {
  id: string;
  thing: Thing;
  /** Its place: columns from the left, rows from the top. */
  column: number;
  line: number;
  from?: Node;
}

export interface Tree {
  nodes: Node[];
  columns: number;
  lines: number;
}

export function tree(sandboxes: types.Sandbox[], snapshots: types.Snapshot[]): Tree {
  const things = new Map<string, Thing>();
  for (const row of sandboxes) things.set(row.id, { kind: "sandbox", row });
  // The memory of a sandbox that is paused to disk is no thing of its own.
  for (const row of snapshots) if (!row.paused) things.set(row.id, { kind: "snapshot", row });
  const children = new Map<string, string[]>();
  const roots: string[] = [];
  const when = (id: string) => things.get(id)?.row.createdAt ?? "";
  for (const [id, t] of things) {
    const from = t.kind === "snapshot" ? t.row.sandbox : (t.row.parent ?? t.row.snapshot);
    if (from && from !== id && things.has(from)) children.set(from, [...(children.get(from) ?? []), id]);
    else roots.push(id);
  }
  const nodes: Node[] = [];
  const placed = new Set<string>();
  let line = 0;
  let columns = 0;
  const place = (id: string, column: number, from?: Node): void => {
    const thing = things.get(id);
    if (!thing || placed.has(id)) return;
    placed.add(id);
    const node: Node = { id, thing, column, line, from };
    nodes.push(node);
    columns = Math.max(columns, column + 1);
    const below = (children.get(id) ?? []).sort((a, b) => when(a).localeCompare(when(b)));
    below.forEach((child, i) => {
      if (i > 0) line++;
      place(child, column + 1, node);
    });
  };
  roots.sort((a, b) => when(a).localeCompare(when(b))).forEach((id, i) => {
    if (i > 0) line++;
    place(id, 0);
  });
  return { nodes, columns, lines: line + 1 };
}

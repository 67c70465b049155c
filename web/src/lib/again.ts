/** A request of an earlier task, as a new one. */
import type { types } from "./api.ts";

/** The request of a task without what only the daemon sets. Files that were off limits stay so. */
export function again(old: types.Task): types.CreateTask {
  const { record: _record, repo, ...rest } = structuredClone(old.create);
  if (!repo) return rest;
  const { item: _item, context, ...kept } = repo;
  // The daemon reads stored documents again, in their version of today.
  return { ...rest, repo: { ...kept, context: context?.filter((d) => !d.version) } };
}

/** The maximum length of a document in bytes. */
const longest = 64 << 10;

/**
 * A request that continues the work of a finished task on a repository: from its branch if that was pushed, otherwise from the same commit, with the
 * patch as a document. start says which.
 */
export function followUp(old: types.Task, message: string, patch: string): { create: types.CreateTask; start: string } {
  const create = again(old);
  const repo = create.repo;
  if (!repo) return { create: { ...create, request: `${create.request}\n\n${message}` }, start: "" };
  const pushed = old.repo?.delivery?.pushed ? old.repo.delivery.branch : undefined;
  create.request = `${create.request}\n\nAn earlier result was reviewed. Change it as these comments say:\n\n${message}`;
  if (pushed) {
    repo.ref = pushed;
    return { create, start: `The new task starts from the branch ${pushed}, which has the earlier result.` };
  }
  if (patch.trim() === "") return { create, start: "The new task starts from the repository." };
  if (new TextEncoder().encode(patch).length > longest) return { create, start: "The new task starts from the repository, without the earlier result: its patch is longer than 64 KiB. Push the branch first, and the new task starts from it." };
  repo.context = [...(repo.context ?? []), { name: "patch of the earlier result", text: patch }];
  return { create, start: "The new task starts from the repository, and has the patch of the earlier result as a document. Push the branch first to have it start from there." };
}

import { createSandbox, Sandbox } from "./sandbox.js";
import { decode, HortusError, parse, problemOf, segment, Transport } from "./transport.js";
export { Command, Sandbox } from "./sandbox.js";
export { HortusError, kinds } from "./transport.js";
/** A client of one daemon. */
export class Hortus {
    sandboxes;
    snapshots;
    templates;
    tasks;
    runs;
    plans;
    sessions;
    secrets;
    repositories;
    #transport;
    constructor(options = {}) {
        const t = new Transport(options);
        this.#transport = t;
        this.sandboxes = new Sandboxes(t);
        this.snapshots = new Snapshots(t);
        this.templates = new Templates(t);
        this.tasks = new Tasks(t);
        this.runs = new Runs(t);
        this.plans = new Plans(t);
        this.sessions = new Sessions(t);
        this.secrets = new Secrets(t);
        this.repositories = new Repositories(t);
    }
    info(o) {
        return this.#transport.call("GET", "/v1/info", o);
    }
    /** Sends any request of the API and decodes its JSON answer, for what has no method. */
    request(method, path, o) {
        return this.#transport.call(method, path, o);
    }
    /** Sends any request of the API and reads its answer as text, of at most 64 MiB. */
    async text(method, path, o) {
        return decode(await this.#transport.whole(method, path, o));
    }
    /**
     * Yields the events of several streams after a number, and what else changes, until the connection breaks: the caller connects again
     * with the numbers that it has.
     */
    async *watch(streams, o = {}) {
        const stream = streams.map((s) => `${s.kind}/${s.id}/${s.after}`);
        for await (const m of this.#transport.stream("/v1/watch", { ...o, query: { stream } }))
            yield parse(m.data, "/v1/watch");
    }
}
class Service {
    t;
    constructor(transport) {
        this.t = transport;
    }
}
export class Sandboxes extends Service {
    /** Creates a sandbox and returns when it accepts commands. */
    create(request = {}, o = {}) {
        return createSandbox(this.t, request, o);
    }
    /** Returns a sandbox by its ID or a unique beginning of it. */
    async get(id, o) {
        return new Sandbox(this.t, (await this.t.call("GET", `/v1/sandboxes/${segment(id)}`, o)).id);
    }
    /** Lists sandboxes, the newest first. */
    list(filter = {}, o) {
        const label = Object.entries(filter.labels ?? {}).map(([name, value]) => `${name}=${value}`);
        return this.t.list("/v1/sandboxes", { all: filter.all && 1, state: filter.state, label, forksOf: filter.forksOf, lineage: filter.lineage }, 0, o);
    }
}
export class Snapshots extends Service {
    list(o) {
        return this.t.list("/v1/snapshots", {}, 0, o);
    }
    get(id, o) {
        return this.t.call("GET", `/v1/snapshots/${segment(id)}`, o);
    }
    remove(id, o) {
        return this.t.call("DELETE", `/v1/snapshots/${segment(id)}`, o);
    }
}
export class Templates extends Service {
    list(o) {
        return this.t.call("GET", "/v1/templates", o);
    }
    /** Builds a template from a Dockerfile, a hortus.yaml or a preset. onLine gets each step, and each line that one printed. */
    async build(request, o = {}) {
        const { onLine, ...call } = o;
        for await (const line of this.t.lines("/v1/templates/build", { ...call, json: request })) {
            if (line.error)
                throw problemOf(line.error);
            if (line.snapshot)
                return line.snapshot;
            if (line.output !== undefined)
                onLine?.({ output: line.output });
            else if (line.step)
                onLine?.({ step: line.step });
        }
        throw new HortusError("unavailable", `the daemon ended before template ${request.name} was built`);
    }
    /** Creates a template from commands. */
    async create(request, o = {}) {
        const { onStep, ...call } = o;
        for await (const line of this.t.lines("/v1/templates", { ...call, json: request })) {
            if (line.error)
                throw problemOf(line.error);
            if (line.snapshot)
                return line.snapshot;
            if (line.step)
                onStep?.(line.step);
        }
        throw new HortusError("unavailable", `the daemon ended before template ${request.name} was created`);
    }
}
/** What tasks and runs have in common. */
class Work extends Service {
    path;
    constructor(transport, path) {
        super(transport);
        this.path = path;
    }
    of(id) {
        return `${this.path}/${segment(id)}`;
    }
    get(id, o) {
        return this.t.call("GET", this.of(id), o);
    }
    /** Lists the newest. */
    list(filter = {}, o) {
        return this.t.list(this.path, { state: filter.state, outcome: filter.outcome }, filter.limit ?? 100, o);
    }
    /** Cancels the work and returns when it has ended. */
    cancel(id, o) {
        return this.t.call("POST", `${this.of(id)}/cancel`, o);
    }
    /** Yields the complete output of an attempt. */
    output(id, attempt, stream, o) {
        return this.t.bytes("GET", `${this.of(id)}/attempts/${attempt}/${segment(stream)}`, o);
    }
}
export class Tasks extends Work {
    constructor(transport) {
        super(transport, "/v1/tasks");
    }
    create(request, o) {
        return this.t.call("POST", this.path, { ...o, json: request });
    }
    /** Answers the question of a task that needs one, and returns the task that continues. */
    reply(id, request, o) {
        return this.t.call("POST", `${this.of(id)}/reply`, { ...o, json: request });
    }
    /** Yields the events, stored and live, up to task.finished, also over broken connections. */
    events(id, o = {}) {
        return follow(this.t, this.of(id), o, "task.finished");
    }
    /** Yields the patch of the result. */
    diff(id, o) {
        return this.t.bytes("GET", `${this.of(id)}/diff`, o);
    }
}
export class Runs extends Work {
    constructor(transport) {
        super(transport, "/v1/runs");
    }
    /** Requests a verified program, in a sentence. The run continues in the daemon. */
    create(request, o) {
        return this.t.call("POST", this.path, { ...o, json: request });
    }
    /** Yields the events, stored and live, up to the verdict, also over broken connections. */
    events(id, o = {}) {
        return follow(this.t, this.of(id), o, "verdict");
    }
}
/** Requests that are divided into items, whose results a queue merges. */
export class Plans extends Service {
    #of(id) {
        return `/v1/plans/${segment(id)}`;
    }
    #post(id, verb, json, o) {
        return this.t.call("POST", `${this.#of(id)}/${verb}`, { ...o, json });
    }
    /** Begins at once, unless the request has approve. */
    create(request, o) {
        return this.t.call("POST", "/v1/plans", { ...o, json: request });
    }
    /** Lists plans that are not done, the newest first, without their items. */
    list(filter = {}, o) {
        const query = { all: filter.all && 1, state: filter.state };
        return this.t.call("GET", "/v1/plans", { ...o, query });
    }
    get(id, o) {
        return this.t.call("GET", this.#of(id), o);
    }
    approve(id, o) {
        return this.#post(id, "approve", {}, o);
    }
    /** Replaces the items that have not begun. */
    edit(id, request, o) {
        return this.#post(id, "edit", request, o);
    }
    /** Answers an item that asks for files which it may not change. */
    answer(id, request, o) {
        return this.#post(id, "answer", request, o);
    }
    /** Tries failed items again. */
    retry(id, request = {}, o) {
        return this.#post(id, "retry", request, o);
    }
    /** Has the model divide again what is not completed. */
    replan(id, request = {}, o) {
        return this.#post(id, "replan", request, o);
    }
    /** Lets what runs end, and begins nothing. */
    pause(id, o) {
        return this.#post(id, "pause", {}, o);
    }
    resume(id, o) {
        return this.#post(id, "resume", {}, o);
    }
    /** Cancels a plan and returns when nothing of it runs. */
    cancel(id, o) {
        return this.#post(id, "cancel", {}, o);
    }
    /** Pushes the branch of a plan that is done, or opens its merge requests. */
    deliver(id, request, o) {
        return this.#post(id, "deliver", request, o);
    }
    /** Ends the looks at the merge requests of a plan. */
    unfollow(id, o) {
        return this.#post(id, "unfollow", {}, o);
    }
    /** Lists who changes files of a repository, or of all, or waits for that. */
    workstreams(repository, o) {
        return this.t.call("GET", "/v1/workstreams", { ...o, query: { repository } });
    }
    /** Yields the events, stored and live, up to plan.finished, also over broken connections. */
    events(id, o = {}) {
        return follow(this.t, this.#of(id), o, "plan.finished");
    }
}
/** Conversations with agents that keep their files. A session is named by the caller's key. */
export class Sessions extends Service {
    #of(key) {
        return `/v1/sessions/${segment(key)}`;
    }
    create(request, o) {
        return this.t.call("POST", "/v1/sessions", { ...o, json: request });
    }
    list(filter = {}, o) {
        const query = { all: filter.all && 1, state: filter.state };
        return this.t.call("GET", "/v1/sessions", { ...o, query });
    }
    get(key, o) {
        return this.t.call("GET", this.#of(key), o);
    }
    /** Sends a message to the agent and returns its turn, which waits or begins. */
    send(key, message, o) {
        return this.t.call("POST", `${this.#of(key)}/messages`, { ...o, json: message });
    }
    cancel(key, request = {}, o) {
        return this.t.call("POST", `${this.#of(key)}/cancel`, { ...o, json: request });
    }
    /** Takes a session back to the checkpoint of a turn. */
    restore(key, request, o) {
        return this.t.call("POST", `${this.#of(key)}/restore`, { ...o, json: request });
    }
    fork(key, request, o) {
        return this.t.call("POST", `${this.#of(key)}/fork`, { ...o, json: request });
    }
    /** Closes a session and removes all that it has. */
    close(key, o) {
        return this.t.call("DELETE", this.#of(key), o);
    }
    events(key, o = {}) {
        return follow(this.t, this.#of(key), o, "session.closed");
    }
}
/** Credentials that requests of sandboxes are sent with. Nothing returns a value. */
export class Secrets extends Service {
    set(name, request, o) {
        return this.t.call("PUT", `/v1/secrets/${segment(name)}`, { ...o, json: request });
    }
    get(name, o) {
        return this.t.call("GET", `/v1/secrets/${segment(name)}`, o);
    }
    remove(name, o) {
        return this.t.call("DELETE", `/v1/secrets/${segment(name)}`, o);
    }
    list(o) {
        return this.t.list("/v1/secrets", {}, 0, o);
    }
}
/** Connected repositories. They are named by their name, their ID or a unique prefix of that. */
export class Repositories extends Service {
    /** Connects a repository and fetches it. If the fetch fails, nothing is connected. */
    add(request, o = {}) {
        return this.#fetch("/v1/repositories", request, o);
    }
    /** Fetches what is new. With prepare, what the new commit needs is then installed in the background. */
    sync(id, o = {}) {
        const { prepare, ...call } = o;
        return this.#fetch(`/v1/repositories/${segment(id)}/sync`, { prepare }, call);
    }
    get(id, o) {
        return this.t.call("GET", `/v1/repositories/${segment(id)}`, o);
    }
    list(o) {
        return this.t.list("/v1/repositories", {}, 0, o);
    }
    /** Disconnects a repository. Its copy stays for the results of tasks. */
    remove(id, o) {
        return this.t.call("DELETE", `/v1/repositories/${segment(id)}`, o);
    }
    /** Tests what may be done with a repository, which need not be connected. Nothing is changed. */
    check(request, o) {
        return this.t.call("POST", "/v1/repositories/check", { ...o, json: request });
    }
    /** Says what was found in the last fetched commit. The texts are untrusted. */
    detected(id, o) {
        return this.t.call("GET", `/v1/repositories/${segment(id)}/detected`, o);
    }
    settings(id, request, o) {
        return this.t.call("PUT", `/v1/repositories/${segment(id)}/settings`, { ...o, json: request });
    }
    /** Says which values the branch policy has, where each comes from, and what a task would deliver. Names of branches are untrusted. */
    policy(id, o) {
        return this.t.call("GET", `/v1/repositories/${segment(id)}/policy`, o);
    }
    /** Sets the branch policy, within that of the operator. With dryRun, nothing is stored. */
    setPolicy(id, request, o) {
        return this.t.call("PUT", `/v1/repositories/${segment(id)}/policy`, { ...o, json: request });
    }
    /** Says which events of the forge start tasks, and what was received. */
    hook(id, o) {
        return this.t.call("GET", `/v1/repositories/${segment(id)}/hook`, o);
    }
    /** Sets which events of the forge start tasks. The answer has the signing secret if it is a new one; it is not shown again. */
    setHook(id, request, o) {
        return this.t.call("PUT", `/v1/repositories/${segment(id)}/hook`, { ...o, json: request });
    }
    removeHook(id, o) {
        return this.t.call("DELETE", `/v1/repositories/${segment(id)}/hook`, o);
    }
    async #fetch(path, json, o) {
        const { onProgress, ...call } = o;
        for await (const line of this.t.lines(path, { ...call, json })) {
            if (line.error)
                throw problemOf(line.error);
            if (line.repository)
                return line.repository;
            if (line.progress)
                onProgress?.(line.progress);
        }
        throw new HortusError("unavailable", "the daemon ended before the repository was fetched");
    }
}
function follow(t, path, o, last) {
    return t.follow(`${path}/events`, "after", o.after ?? 0, o.signal, (m) => {
        const e = parse(m.data, path);
        return { item: e, at: e.seq, last: e.type === last };
    });
}

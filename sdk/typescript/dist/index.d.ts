/**
 * The TypeScript SDK of Hortus.
 *
 *     await using sandbox = await Sandbox.create();
 *     const { stdout } = await sandbox.run(["python3", "-c", "print(6 * 7)"]);
 *
 * @module
 */
import type { AddRepository, CheckRepository, Repository, RepositoryAccess, RepositoryDetected, RepositoryHookState, RepositoryPolicyState, RepositorySettings, SetRepositoryHook, SetRepositoryPolicy, BuildTemplate, CreateRun, CreateSandbox, CreateTask, CreateTemplate, DaemonInfo, Event, Plan, PlanAnswer, PlanCreate, PlanDeliver, PlanEdit, PlanReplan, PlanRetry, ReplyTask, RunEvent, Sandbox as SandboxInfo, Secret, SecretSet, Session, SessionCancel, SessionCreate, SessionFork, SessionMessage, SessionRestore, SessionTurn, Snapshot, Task, Template, Watched, Workstream } from "../types.js";
import { Sandbox } from "./sandbox.ts";
import { Transport } from "./transport.ts";
import type { CallOptions, Options, RequestOptions, WaitingOptions } from "./transport.ts";
export type * as types from "../types.js";
export { Command, Sandbox } from "./sandbox.ts";
export type { CodeOptions, CodeResult, CommandEvent, FileOptions, Fork, Result, RunOptions, StartOptions, WaitOptions } from "./sandbox.ts";
export { HortusError, kinds } from "./transport.ts";
export type { Bytes, CallOptions, Kind, Options, Query, RequestOptions, WaitingOptions } from "./transport.ts";
export interface SandboxFilter {
    /** Those that have ended too. */
    all?: boolean;
    state?: string[];
    labels?: Record<string, string>;
    forksOf?: string;
    /** The whole ID of a sandbox: itself, its forks, and what was restored from snapshots of them. */
    lineage?: string;
}
export interface TaskFilter {
    /** The maximum number, of the newest; 100 if it is not set. */
    limit?: number;
    state?: string[];
    outcome?: string[];
}
export interface EventOptions {
    /** The number of the last event that is known; 0 is none. */
    after?: number;
    signal?: AbortSignal;
}
/** A client of one daemon. */
export declare class Hortus {
    #private;
    readonly sandboxes: Sandboxes;
    readonly snapshots: Snapshots;
    readonly templates: Templates;
    readonly tasks: Tasks;
    readonly runs: Runs;
    readonly plans: Plans;
    readonly sessions: Sessions;
    readonly secrets: Secrets;
    readonly repositories: Repositories;
    constructor(options?: Options);
    info(o?: CallOptions): Promise<DaemonInfo>;
    /** Sends any request of the API and decodes its JSON answer, for what has no method. */
    request<T>(method: string, path: string, o?: RequestOptions): Promise<T>;
    /** Sends any request of the API and reads its answer as text, of at most 64 MiB. */
    text(method: string, path: string, o?: RequestOptions): Promise<string>;
    /**
     * Yields the events of several streams after a number, and what else changes, until the connection breaks: the caller connects again
     * with the numbers that it has.
     */
    watch(streams: {
        kind: string;
        id: string;
        after: number;
    }[], o?: CallOptions): AsyncGenerator<Watched, void, void>;
}
declare class Service {
    protected t: Transport;
    constructor(transport: Transport);
}
export declare class Sandboxes extends Service {
    /** Creates a sandbox and returns when it accepts commands. */
    create(request?: CreateSandbox, o?: WaitingOptions): Promise<Sandbox>;
    /** Returns a sandbox by its ID or a unique beginning of it. */
    get(id: string, o?: CallOptions): Promise<Sandbox>;
    /** Lists sandboxes, the newest first. */
    list(filter?: SandboxFilter, o?: CallOptions): Promise<SandboxInfo[]>;
}
export declare class Snapshots extends Service {
    list(o?: CallOptions): Promise<Snapshot[]>;
    get(id: string, o?: CallOptions): Promise<Snapshot>;
    remove(id: string, o?: CallOptions): Promise<Snapshot>;
}
export declare class Templates extends Service {
    list(o?: CallOptions): Promise<Template[]>;
    /** Builds a template from a Dockerfile, a hortus.yaml or a preset. onLine gets each step, and each line that one printed. */
    build(request: BuildTemplate, o?: CallOptions & {
        onLine?: (line: {
            step: string;
        } | {
            output: string;
        }) => void;
    }): Promise<Snapshot>;
    /** Creates a template from commands. */
    create(request: CreateTemplate, o?: CallOptions & {
        onStep?: (step: string) => void;
    }): Promise<Snapshot>;
}
/** What tasks and runs have in common. */
declare class Work extends Service {
    protected path: string;
    constructor(transport: Transport, path: string);
    protected of(id: string): string;
    get(id: string, o?: CallOptions): Promise<Task>;
    /** Lists the newest. */
    list(filter?: TaskFilter, o?: CallOptions): Promise<Task[]>;
    /** Cancels the work and returns when it has ended. */
    cancel(id: string, o?: CallOptions): Promise<Task>;
    /** Yields the complete output of an attempt. */
    output(id: string, attempt: number, stream: "stdout" | "stderr", o?: CallOptions): AsyncGenerator<Uint8Array, void, void>;
}
export declare class Tasks extends Work {
    constructor(transport: Transport);
    create(request: CreateTask, o?: CallOptions): Promise<Task>;
    /** Answers the question of a task that needs one, and returns the task that continues. */
    reply(id: string, request: ReplyTask, o?: CallOptions): Promise<Task>;
    /** Yields the events, stored and live, up to task.finished, also over broken connections. */
    events(id: string, o?: EventOptions): AsyncGenerator<Event, void, void>;
    /** Yields the patch of the result. */
    diff(id: string, o?: CallOptions): AsyncGenerator<Uint8Array, void, void>;
}
export declare class Runs extends Work {
    constructor(transport: Transport);
    /** Requests a verified program, in a sentence. The run continues in the daemon. */
    create(request: CreateRun, o?: CallOptions): Promise<Task>;
    /** Yields the events, stored and live, up to the verdict, also over broken connections. */
    events(id: string, o?: EventOptions): AsyncGenerator<RunEvent, void, void>;
}
/** Requests that are divided into items, whose results a queue merges. */
export declare class Plans extends Service {
    #private;
    /** Begins at once, unless the request has approve. */
    create(request: PlanCreate, o?: CallOptions): Promise<Plan>;
    /** Lists plans that are not done, the newest first, without their items. */
    list(filter?: {
        all?: boolean;
        state?: string[];
    }, o?: CallOptions): Promise<Plan[]>;
    get(id: string, o?: CallOptions): Promise<Plan>;
    approve(id: string, o?: CallOptions): Promise<Plan>;
    /** Replaces the items that have not begun. */
    edit(id: string, request: PlanEdit, o?: CallOptions): Promise<Plan>;
    /** Answers an item that asks for files which it may not change. */
    answer(id: string, request: PlanAnswer, o?: CallOptions): Promise<Plan>;
    /** Tries failed items again. */
    retry(id: string, request?: PlanRetry, o?: CallOptions): Promise<Plan>;
    /** Has the model divide again what is not completed. */
    replan(id: string, request?: PlanReplan, o?: CallOptions): Promise<Plan>;
    /** Lets what runs end, and begins nothing. */
    pause(id: string, o?: CallOptions): Promise<Plan>;
    resume(id: string, o?: CallOptions): Promise<Plan>;
    /** Cancels a plan and returns when nothing of it runs. */
    cancel(id: string, o?: CallOptions): Promise<Plan>;
    /** Pushes the branch of a plan that is done, or opens its merge requests. */
    deliver(id: string, request: PlanDeliver, o?: CallOptions): Promise<Plan>;
    /** Ends the looks at the merge requests of a plan. */
    unfollow(id: string, o?: CallOptions): Promise<Plan>;
    /** Lists who changes files of a repository, or of all, or waits for that. */
    workstreams(repository?: string, o?: CallOptions): Promise<Workstream[]>;
    /** Yields the events, stored and live, up to plan.finished, also over broken connections. */
    events(id: string, o?: EventOptions): AsyncGenerator<Event, void, void>;
}
/** Conversations with agents that keep their files. A session is named by the caller's key. */
export declare class Sessions extends Service {
    #private;
    create(request: SessionCreate, o?: CallOptions): Promise<Session>;
    list(filter?: {
        all?: boolean;
        state?: string[];
    }, o?: CallOptions): Promise<Session[]>;
    get(key: string, o?: CallOptions): Promise<Session>;
    /** Sends a message to the agent and returns its turn, which waits or begins. */
    send(key: string, message: SessionMessage, o?: CallOptions): Promise<SessionTurn>;
    cancel(key: string, request?: SessionCancel, o?: CallOptions): Promise<Session>;
    /** Takes a session back to the checkpoint of a turn. */
    restore(key: string, request: SessionRestore, o?: CallOptions): Promise<Session>;
    fork(key: string, request: SessionFork, o?: CallOptions): Promise<Session>;
    /** Closes a session and removes all that it has. */
    close(key: string, o?: CallOptions): Promise<Session>;
    events(key: string, o?: EventOptions): AsyncGenerator<Event, void, void>;
}
/** Credentials that requests of sandboxes are sent with. Nothing returns a value. */
export declare class Secrets extends Service {
    set(name: string, request: SecretSet, o?: CallOptions): Promise<Secret>;
    get(name: string, o?: CallOptions): Promise<Secret>;
    remove(name: string, o?: CallOptions): Promise<Secret>;
    list(o?: CallOptions): Promise<Secret[]>;
}
/** Connected repositories. They are named by their name, their ID or a unique prefix of that. */
export declare class Repositories extends Service {
    #private;
    /** Connects a repository and fetches it. If the fetch fails, nothing is connected. */
    add(request: AddRepository, o?: CallOptions & {
        onProgress?: (line: string) => void;
    }): Promise<Repository>;
    /** Fetches what is new. With prepare, what the new commit needs is then installed in the background. */
    sync(id: string, o?: CallOptions & {
        onProgress?: (line: string) => void;
        prepare?: boolean;
    }): Promise<Repository>;
    get(id: string, o?: CallOptions): Promise<Repository>;
    list(o?: CallOptions): Promise<Repository[]>;
    /** Disconnects a repository. Its copy stays for the results of tasks. */
    remove(id: string, o?: CallOptions): Promise<Repository>;
    /** Tests what may be done with a repository, which need not be connected. Nothing is changed. */
    check(request: CheckRepository, o?: CallOptions): Promise<RepositoryAccess>;
    /** Says what was found in the last fetched commit. The texts are untrusted. */
    detected(id: string, o?: CallOptions): Promise<RepositoryDetected>;
    settings(id: string, request: RepositorySettings, o?: CallOptions): Promise<Repository>;
    /** Says which values the branch policy has, where each comes from, and what a task would deliver. Names of branches are untrusted. */
    policy(id: string, o?: CallOptions): Promise<RepositoryPolicyState>;
    /** Sets the branch policy, within that of the operator. With dryRun, nothing is stored. */
    setPolicy(id: string, request: SetRepositoryPolicy, o?: CallOptions): Promise<RepositoryPolicyState>;
    /** Says which events of the forge start tasks, and what was received. */
    hook(id: string, o?: CallOptions): Promise<RepositoryHookState>;
    /** Sets which events of the forge start tasks. The answer has the signing secret if it is a new one; it is not shown again. */
    setHook(id: string, request: SetRepositoryHook, o?: CallOptions): Promise<RepositoryHookState>;
    removeHook(id: string, o?: CallOptions): Promise<Repository>;
}

import type { Problem, WaitingEvent } from "../types.js";
/** The kind of a failure. The set is closed: a program may switch over it. */
export type Kind = Problem["kind"];
/** All kinds. */
export declare const kinds: readonly Kind[];
/** The one error of this package. `message` says what failed, `hint` what to do. */
export declare class HortusError extends Error {
    readonly kind: Kind;
    /** What to do, in a sentence; "" if that is unknown. */
    readonly hint: string;
    /** The request that does what the hint says, such as `POST /v1/sandboxes/ID/resume`. */
    readonly call: string;
    /** The HTTP status, or 0 if there was no answer. 410 means that a retry never succeeds. */
    readonly status: number;
    /** The time after which a retry may succeed, in milliseconds, or 0. */
    readonly retryAfterMs: number;
    constructor(kind: Kind, message: string, more?: {
        hint?: string;
        call?: string;
        status?: number;
        retryAfterMs?: number;
        cause?: unknown;
    });
}
/** How to reach a daemon. */
export interface Options {
    /** The URL of a `hortus serve`. Default: HORTUS_HOST, or http://127.0.0.1:7070. */
    url?: string;
    /** An API key. Default: HORTUS_API_KEY. null sends none, for pages whose session authenticates them. */
    apiKey?: string | null;
    /** How long the daemon may write nothing, in milliseconds. Default: 10 minutes. */
    timeoutMs?: number;
    /** How long a broken event stream is opened again, in milliseconds. Default: a minute. */
    patienceMs?: number;
    /** Used instead of the platform's fetch. */
    fetch?: typeof fetch;
}
/** Options of one call. */
export interface CallOptions {
    /** Ends the call, with an error of kind `canceled` or `timeout`. */
    signal?: AbortSignal;
    /** Calls that create something with the same key create it once. */
    idempotencyKey?: string;
}
/** Options of a call that may wait for capacity of the host. */
export interface WaitingOptions extends CallOptions {
    /** Receives what the call waits for, if the host is full: when the wait begins and when its cause changes. */
    onWait?: (waiting: WaitingEvent) => void;
}
export type Query = Record<string, string | number | boolean | readonly string[] | undefined>;
/** What a request body can be, unless it is JSON. */
export type Bytes = string | Uint8Array | Blob | ReadableStream<Uint8Array>;
export interface RequestOptions extends CallOptions {
    query?: Query;
    /** Sent as JSON. */
    json?: unknown;
    /** Sent as it is. */
    bytes?: Bytes;
    /** The media types of the answer. */
    accept?: string;
}
/** One message of an event stream. */
export interface Message {
    event: string;
    data: string;
}
/** Bounds of what a daemon may answer, in bytes: a whole answer, an event, a line of JSON. */
export declare const maxAnswer: number;
/** Makes an ID or a name safe as one segment of a path. */
export declare function segment(id: string): string;
export declare class Transport {
    #private;
    constructor(options: Options);
    /** Sends one request and returns its answer, whose status is a success. */
    send(method: string, path: string, o?: RequestOptions): Promise<Response>;
    /** Sends a request and yields the bytes of its answer. */
    bytes(method: string, path: string, o?: RequestOptions): AsyncGenerator<Uint8Array, void, void>;
    /** Sends a request and reads its answer, of at most maxAnswer bytes. */
    whole(method: string, path: string, o?: RequestOptions): Promise<Uint8Array>;
    /** Sends a request and decodes its answer. */
    call<T>(method: string, path: string, o?: RequestOptions): Promise<T>;
    /** Sends a request that may wait for capacity of the host, and decodes its answer. */
    wait<T>(path: string, o?: RequestOptions & WaitingOptions): Promise<T>;
    /** Sends a request whose answer has no content. */
    order(method: string, path: string, o?: RequestOptions): Promise<void>;
    /** Reads the rows of a list, page by page; limit 0 means all. */
    list<T>(path: string, query: Query, limit: number, o?: CallOptions): Promise<T[]>;
    /**
     * Yields the items of an event stream from a number on. A connection that breaks is made again, where it was: read
     * gives the item of a message, its number, and whether it is the last one.
     */
    follow<T>(path: string, name: "after" | "offset", at: number, signal: AbortSignal | undefined, read: (m: Message) => {
        item: T;
        at: number;
        last: boolean;
    }): AsyncGenerator<T, void, void>;
    /** Yields the messages of one connection to an event stream. */
    stream(path: string, o: RequestOptions): AsyncGenerator<Message, void, void>;
    /** Yields an answer in lines of JSON. */
    lines<T>(path: string, o: RequestOptions): AsyncGenerator<T, void, void>;
}
/** Makes the error that a daemon describes, with the status of its answer or, in an answer in lines, of the description. */
export declare function problemOf(p: Problem, status?: number): HortusError;
export declare function parse<T>(text: string, path: string): T;
export declare function decode(bytes: Uint8Array): string;

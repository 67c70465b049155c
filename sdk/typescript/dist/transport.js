/** All kinds. */
export const kinds = [
    "invalid", "unauthenticated", "denied", "not_found", "exists", "conflict", "unsupported", "unisolated", "exhausted", "timeout", "canceled", "unavailable",
    "declined", "internal",
];
/** The one error of this package. `message` says what failed, `hint` what to do. */
export class HortusError extends Error {
    kind;
    /** What to do, in a sentence; "" if that is unknown. */
    hint;
    /** The request that does what the hint says, such as `POST /v1/sandboxes/ID/resume`. */
    call;
    /** The HTTP status, or 0 if there was no answer. 410 means that a retry never succeeds. */
    status;
    /** The time after which a retry may succeed, in milliseconds, or 0. */
    retryAfterMs;
    constructor(kind, message, more = {}) {
        super(message, more.cause === undefined ? undefined : { cause: more.cause });
        this.name = "HortusError";
        this.kind = kind;
        this.hint = more.hint ?? "";
        this.call = more.call ?? "";
        this.status = more.status ?? 0;
        this.retryAfterMs = more.retryAfterMs ?? 0;
    }
}
/** Bounds of what a daemon may answer, in bytes: a whole answer, an event, a line of JSON. */
export const maxAnswer = 64 << 20;
const maxEvent = 4 << 20;
const maxLine = 65 << 20;
/** A daemon writes a comment every 15 seconds: a stream that is silent for longer is dead. */
const maxSilenceMs = 60_000;
/** The longest pause between two attempts to open a broken event stream again. */
const maxPauseMs = 2_000;
const typeLines = "application/x-ndjson";
/** Makes an ID or a name safe as one segment of a path. */
export function segment(id) {
    if (typeof id !== "string" || id === "" || id === "." || id === "..")
        throw new HortusError("invalid", `${JSON.stringify(id)} is not an ID`);
    return encodeURIComponent(id);
}
export class Transport {
    #base;
    #key;
    #fetch;
    #timeoutMs;
    #patienceMs;
    constructor(options) {
        const env = (name) => globalThis.process?.env?.[name] || undefined;
        const url = options.url ?? env("HORTUS_HOST") ?? "http://127.0.0.1:7070";
        const key = options.apiKey === null ? null : (options.apiKey ?? env("HORTUS_API_KEY") ?? "");
        const parsed = URL.canParse(url) ? new URL(url) : undefined;
        if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.username || parsed.password || parsed.search || parsed.hash) {
            // A bad URL may contain a password, so the message does not quote it.
            throw new HortusError("invalid", "not the URL of a daemon", { hint: "use an http or https URL without a user name, a password or a query, for example https://hortus.example" });
        }
        if (key !== null && !/^[\x21-\x7e]+$/.test(key)) {
            throw new HortusError("invalid", `invalid or missing API key for ${parsed.host}`, { hint: "set HORTUS_API_KEY or apiKey; `hortus key create` prints a key" });
        }
        this.#base = parsed.origin + parsed.pathname.replace(/\/$/, "");
        this.#key = key;
        this.#timeoutMs = Math.min(options.timeoutMs ?? 600_000, 2 ** 31 - 1); // what a timer can have
        this.#patienceMs = options.patienceMs ?? 60_000;
        this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    }
    /** Sends one request and returns its answer, whose status is a success. */
    async send(method, path, o = {}) {
        const query = new URLSearchParams();
        for (const [name, value] of Object.entries(o.query ?? {})) {
            for (const v of Array.isArray(value) ? value : [value])
                if (v !== undefined && v !== false)
                    query.append(name, String(v));
        }
        const headers = this.#key === null ? {} : { "X-API-Key": this.#key };
        if (o.idempotencyKey !== undefined)
            headers["Idempotency-Key"] = o.idempotencyKey;
        if (o.accept !== undefined)
            headers["Accept"] = o.accept;
        // A key is for one host: a redirect is not followed.
        const init = { method, headers, redirect: "manual" };
        if (o.json !== undefined) {
            headers["Content-Type"] = "application/json";
            init.body = JSON.stringify(o.json);
        }
        else if (o.bytes !== undefined) {
            headers["Content-Type"] = "application/octet-stream";
            init.body = o.bytes;
            if (o.bytes instanceof ReadableStream)
                init.duplex = "half";
        }
        // The answer to what is sent as it is comes after all of it, which may take any time.
        const late = new AbortController();
        const timer = o.bytes === undefined ? setTimeout(() => late.abort(silence(this.#timeoutMs)), this.#timeoutMs) : undefined;
        init.signal = o.signal ? AbortSignal.any([o.signal, late.signal]) : late.signal;
        let response;
        try {
            response = await this.#fetch(`${this.#base}${path}${query.size ? `?${query}` : ""}`, init);
        }
        catch (cause) {
            throw failure("the daemon does not respond", cause, o.signal);
        }
        finally {
            clearTimeout(timer);
        }
        if (!response.ok)
            throw problem(response.status, await this.#whole(response, path, o.signal).catch(() => new Uint8Array()));
        return response;
    }
    /** Sends a request and yields the bytes of its answer. */
    async *bytes(method, path, o = {}) {
        yield* chunks(await this.send(method, path, o), path, o.signal, this.#timeoutMs);
    }
    /** Sends a request and reads its answer, of at most maxAnswer bytes. */
    async whole(method, path, o = {}) {
        return this.#whole(await this.send(method, path, o), path, o.signal);
    }
    async #whole(response, path, signal) {
        const parts = [];
        let size = 0;
        for await (const part of chunks(response, path, signal, this.#timeoutMs)) {
            if ((size += part.length) > maxAnswer) {
                throw new HortusError("exhausted", `the daemon's answer to ${path} is larger than ${maxAnswer >> 20} MiB`, { hint: "read a large file as a stream" });
            }
            parts.push(part);
        }
        return join(parts, size);
    }
    /** Sends a request and decodes its answer. */
    async call(method, path, o = {}) {
        return parse(decode(await this.whole(method, path, o)), path);
    }
    /** Sends a request that may wait for capacity of the host, and decodes its answer. */
    async wait(path, o = {}) {
        const { onWait, ...request } = o;
        if (!onWait)
            return this.call("POST", path, request);
        const response = await this.send("POST", path, { ...request, accept: `application/json, ${typeLines}` });
        if (response.headers.get("Content-Type")?.split(";")[0] !== typeLines)
            return parse(decode(await this.#whole(response, path, o.signal)), path);
        for await (const line of values(response, path, o.signal, this.#timeoutMs)) {
            if (line.error)
                throw problemOf(line.error);
            if (line.waiting)
                onWait(line.waiting);
            else if (line.type === "done")
                return line.answer;
        }
        throw interrupted(path);
    }
    /** Sends a request whose answer has no content. */
    async order(method, path, o = {}) {
        await this.whole(method, path, o);
    }
    /** Reads the rows of a list, page by page; limit 0 means all. */
    async list(path, query, limit, o = {}) {
        const rows = [];
        for (let cursor;;) {
            const response = await this.send("GET", path, { ...o, query: { ...query, limit: limit ? Math.min(limit - rows.length, 1000) : undefined, cursor } });
            const page = parse(decode(await this.#whole(response, path, o.signal)), path);
            rows.push(...page);
            const next = response.headers.get("X-Next-Cursor") ?? undefined;
            if (!next || (limit && rows.length >= limit))
                return rows;
            if (next === cursor || page.length === 0)
                throw new HortusError("internal", `the daemon's list ${path} does not end`);
            cursor = next;
        }
    }
    /**
     * Yields the items of an event stream from a number on. A connection that breaks is made again, where it was: read
     * gives the item of a message, its number, and whether it is the last one.
     */
    async *follow(path, name, at, signal, read) {
        for (let failed = 0, since = 0;; failed++) {
            const before = at;
            let error;
            try {
                const response = await this.send("GET", path, { query: { [name]: at }, signal });
                if (response.status === 204)
                    return; // the last event was seen
                for await (const m of messages(response, path, signal, Math.min(maxSilenceMs, this.#timeoutMs))) {
                    const got = read(m);
                    if (!Number.isInteger(got.at))
                        throw new HortusError("internal", `cannot parse an event of ${path}: ${JSON.stringify(m.data.slice(0, 80))}`);
                    if (got.at <= at && !got.last)
                        continue;
                    at = got.at;
                    yield got.item;
                    if (got.last)
                        return;
                }
            }
            catch (e) {
                // A daemon that answers with another kind has decided.
                if (!(e instanceof HortusError) || e.kind !== "unavailable" || e.status === 410)
                    throw e;
                error = e;
            }
            if (at > before)
                failed = 0;
            if (failed === 0)
                since = performance.now();
            if (performance.now() - since >= this.#patienceMs)
                throw error ?? new HortusError("unavailable", `the daemon closed the event stream ${path}`);
            await pause(Math.min(50 * 2 ** failed, maxPauseMs), signal);
        }
    }
    /** Yields the messages of one connection to an event stream. */
    async *stream(path, o) {
        yield* messages(await this.send("GET", path, o), path, o.signal, Math.min(maxSilenceMs, this.#timeoutMs));
    }
    /** Yields an answer in lines of JSON. */
    async *lines(path, o) {
        yield* values(await this.send("POST", path, o), path, o.signal, 0);
    }
}
/** Waits, and returns early if the call is ended: the next request says so. */
function pause(ms, signal) {
    return new Promise((resolve) => {
        const end = () => {
            clearTimeout(timer);
            signal?.removeEventListener("abort", end);
            resolve();
        };
        const timer = setTimeout(end, ms);
        signal?.addEventListener("abort", end);
    });
}
/** Makes the error that a daemon describes, with the status of its answer or, in an answer in lines, of the description. */
export function problemOf(p, status = p.status) {
    return new HortusError(p.kind, p.detail, { hint: p.hint, call: p.call, status, retryAfterMs: p.retryAfterMs });
}
function interrupted(path) {
    return new HortusError("unavailable", `the daemon's answer to ${path} was interrupted`);
}
/** Makes the error of a call that failed without an answer. */
function failure(what, cause, signal) {
    if (cause instanceof HortusError)
        return cause;
    if (signal?.aborted) {
        const timeout = signal.reason?.name === "TimeoutError";
        return new HortusError(timeout ? "timeout" : "canceled", timeout ? "the call timed out" : "the call was canceled", { cause });
    }
    const below = cause.cause;
    return new HortusError("unavailable", `${what}: ${below?.message || below?.code || cause.message}`, {
        hint: "check that `hortus serve` runs and that the URL is the one that it prints",
        cause,
    });
}
/** Reads the error that an answer carries. */
function problem(status, body) {
    const text = decode(body);
    let p = null;
    try {
        p = JSON.parse(text);
    }
    catch {
        // It is not from a daemon: below.
    }
    if (!p?.kind || !kinds.includes(p.kind) || typeof p.detail !== "string") {
        // 502 to 504 are of a proxy that has no daemon now.
        const kind = status >= 502 && status <= 504 ? "unavailable" : "internal";
        return new HortusError(kind, `unexpected response from the daemon: ${status} ${JSON.stringify(text.slice(0, 200))}`, { status });
    }
    return problemOf(p, status);
}
function silence(ms) {
    return new Error(`nothing came for ${ms / 1000} seconds`);
}
/** Yields the pieces of a body. An end before that of the body, and a silence that is longer than silenceMs, 0 for any, is an error. */
async function* chunks(response, path, signal, silenceMs) {
    const reader = response.body?.getReader();
    if (!reader)
        return;
    let ended = false;
    try {
        for (;;) {
            let timer;
            const reads = [reader.read()];
            if (silenceMs)
                reads.push(new Promise((_, reject) => (timer = setTimeout(() => reject(silence(silenceMs)), silenceMs))));
            const { done, value } = await Promise.race(reads).finally(() => clearTimeout(timer));
            if (done) {
                ended = true;
                return;
            }
            yield value;
        }
    }
    catch (cause) {
        throw failure(`the daemon's answer to ${path} was interrupted`, cause, signal);
    }
    finally {
        if (!ended)
            reader.cancel().catch(() => { }); // closes the connection
    }
}
function join(parts, size) {
    const all = new Uint8Array(size);
    let at = 0;
    for (const part of parts) {
        all.set(part, at);
        at += part.length;
    }
    return all;
}
/** Yields lines without their ends. whole is false for text after the last end of a line. */
async function* split(from, max, path) {
    let parts = [];
    let size = 0;
    for await (const chunk of from) {
        let start = 0;
        for (let end;; start = end + 1) {
            end = chunk.indexOf(10, start);
            const part = chunk.subarray(start, end < 0 ? undefined : end);
            if ((size += part.length) > max)
                throw new HortusError("exhausted", `the daemon's answer to ${path} has a line of more than ${max >> 20} MiB`);
            if (part.length)
                parts.push(part);
            if (end < 0)
                break;
            yield { text: decode(join(parts, size)), whole: true };
            parts = [];
            size = 0;
        }
    }
    if (size)
        yield { text: decode(join(parts, size)), whole: false };
}
/** Yields the objects of an answer in lines of JSON. */
async function* values(response, path, signal, silenceMs) {
    for await (const line of split(chunks(response, path, signal, silenceMs), maxLine, path)) {
        if (!line.whole)
            throw interrupted(path);
        if (line.text === "")
            continue;
        const value = parse(line.text, path);
        if (typeof value !== "object" || value === null)
            throw new HortusError("internal", `a line of the daemon's answer to ${path} is not an object: ${JSON.stringify(line.text.slice(0, 80))}`);
        yield value;
    }
}
/** Yields the messages of an event stream. What a cut has left of one is dropped. */
async function* messages(response, path, signal, silenceMs) {
    let m = { event: "", data: "" };
    for await (const line of split(chunks(response, path, signal, silenceMs), maxEvent, path)) {
        if (!line.whole)
            return;
        if (line.text === "") {
            if (m.data)
                yield m;
            m = { event: "", data: "" };
        }
        else if (line.text.startsWith("event:"))
            m.event = line.text.slice(6).trim();
        else if (line.text.startsWith("data:"))
            m.data = line.text.slice(5);
    }
}
export function parse(text, path) {
    try {
        return JSON.parse(text);
    }
    catch (cause) {
        throw new HortusError("internal", `cannot parse the daemon's answer to ${path}: ${JSON.stringify(text.slice(0, 80))}`, { cause });
    }
}
export function decode(bytes) {
    return new TextDecoder().decode(bytes);
}

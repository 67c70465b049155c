import { decode, HortusError, maxAnswer, parse, segment, Transport } from "./transport.js";
/** A sandbox. Only `kill` and its deadline end it. */
export class Sandbox {
    id;
    #transport;
    #path;
    /** @internal */
    constructor(transport, id) {
        this.#transport = transport;
        this.id = id;
        this.#path = `/v1/sandboxes/${segment(id)}`;
    }
    /** Creates a sandbox with a client of the environment's daemon, or of the options' one. */
    static async create(request = {}, options = {}) {
        return createSandbox(new Transport(options), request, options);
    }
    info(o) {
        return this.#transport.call("GET", this.#path, o);
    }
    /** Ends the sandbox and everything in it. */
    kill(o) {
        return this.#transport.call("DELETE", this.#path, o);
    }
    async [Symbol.asyncDispose]() {
        try {
            await this.kill();
        }
        catch (e) {
            if (!(e instanceof HortusError) || e.status !== 410)
                throw e;
        }
    }
    /** Moves the deadline to a time from now. */
    setTTL(ttlMs, o) {
        return this.#transport.call("POST", `${this.#path}/ttl`, { ...o, json: { ttlMs } });
    }
    /** Freezes the sandbox; with toDisk its memory is saved and released. */
    pause(request = {}, o) {
        return this.#transport.call("POST", `${this.#path}/pause`, { ...o, json: request });
    }
    resume(o) {
        return this.#transport.wait(`${this.#path}/resume`, o);
    }
    stats(o) {
        return this.#transport.call("GET", `${this.#path}/stats`, o);
    }
    /** The URL at which a program, such as Playwright, reaches the browser inside over the Chrome DevTools Protocol, once. */
    browserURL(o) {
        return this.#transport.call("POST", `${this.#path}/browser/url`, o);
    }
    /** The URL at which a browser opens the editor inside, in a sandbox of a template with one, once. */
    ideURL(o) {
        return this.#transport.call("POST", `${this.#path}/ide/url`, o);
    }
    /** Yields what the browser inside shows, until the connection ends. */
    async *browserScreen(o = {}) {
        const path = `${this.#path}/browser/screen`;
        for await (const m of this.#transport.stream(path, o))
            yield parse(m.data, path);
    }
    /** What the sandbox used during the last hour, every five seconds, the oldest first. */
    samples(o) {
        return this.#transport.call("GET", `${this.#path}/samples`, o);
    }
    /** Saves the sandbox as it is now; with a name the snapshot is a template. */
    snapshot(request = {}, o) {
        return this.#transport.call("POST", `${this.#path}/snapshots`, { ...o, json: request });
    }
    /** Creates sandboxes that continue from where this one is. It fails if no child was created. */
    async fork(request = {}, o) {
        const result = await this.#transport.wait(`${this.#path}/forks`, { ...o, json: request });
        const sandboxes = result.children.flatMap((c) => (c.sandbox ? [new Sandbox(this.#transport, c.sandbox.id)] : []));
        const failed = result.children.find((c) => c.error)?.error;
        const [first, ...others] = sandboxes;
        if (first)
            return { result, sandboxes: [first, ...others] };
        throw new HortusError(failed?.kind ?? "internal", failed?.message ?? "the fork has no children", { hint: failed?.hint, retryAfterMs: failed?.retryAfterMs });
    }
    /** Replaces the policy of outgoing connections. */
    setEgress(policy, o) {
        return this.#transport.call("PUT", `${this.#path}/egress`, { ...o, json: policy });
    }
    /** Yields the sandbox's events after a number, and ends when the sandbox has ended. */
    events(o = {}) {
        return this.#transport.follow(`${this.#path}/events`, "after", o.after ?? 0, o.signal, (m) => {
            const e = parse(m.data, this.#path);
            const ended = e.type === "sandbox.state" && ["ended", "lost"].includes(e.data?.state ?? "");
            return { item: e, at: e.seq, last: ended };
        });
    }
    // Commands.
    /** Runs a command and waits for its end. A string is run by the shell. If the call is ended by its signal, so is the command. */
    async run(args, o = {}) {
        const { stdin, ...start } = o;
        const command = await this.start(args, { ...start, stdin: stdin !== undefined });
        try {
            // A command need not read its input, so only an end of the command counts.
            if (stdin !== undefined)
                command.write(stdin, { close: true, signal: o.signal }).catch(() => { });
            return await command.wait(o);
        }
        catch (e) {
            await command.kill().catch(() => { });
            throw e;
        }
    }
    /** Starts a command. It runs whether or not its output is read. */
    async start(args, o = {}) {
        const { dir, env, user, timeoutMs, stdin, pty, tag, ...call } = o;
        const json = { args: typeof args === "string" ? ["sh", "-c", args] : args, dir, env, user, timeoutMs, stdin, pty, tag };
        const row = await this.#transport.call("POST", `${this.#path}/execs`, { signal: call.signal, idempotencyKey: call.idempotencyKey, json });
        return this.command(row.id);
    }
    /** Returns a command that was started earlier. */
    command(id) {
        return new Command(this.#transport, `${this.#path}/execs/${segment(id)}`, id);
    }
    /** Lists the commands, the newest first. */
    commands(o) {
        return this.#transport.list(`${this.#path}/execs`, {}, 0, o);
    }
    // Files. A path that does not begin with / starts in /workspace.
    #file(rest, path, o, more = {}) {
        return [`${this.#path}/files${rest}`, { signal: o?.signal, query: { path, user: o?.user, ...more } }];
    }
    /** Reads a file of up to 64 MiB. */
    readFile(path, o) {
        return this.#transport.whole("GET", ...this.#file("", path, o));
    }
    async readText(path, o) {
        return decode(await this.readFile(path, o));
    }
    /** Yields the content of a file of any size. */
    readStream(path, o) {
        return this.#transport.bytes("GET", ...this.#file("", path, o));
    }
    /** Writes a file whole, with its parents. A stream is sent as it is read. */
    async writeFile(path, data, o) {
        const [route, request] = this.#file("", path, o);
        await this.#transport.order("PUT", route, { ...request, bytes: data });
    }
    listDir(path = ".", o) {
        return this.#transport.call("GET", ...this.#file("/list", path, o, { depth: o?.depth ?? 1 }));
    }
    stat(path, o) {
        return this.#transport.call("GET", ...this.#file("/info", path, o));
    }
    /** Creates a directory and its parents. One that exists is no error. */
    async makeDir(path, o) {
        try {
            await this.#transport.order("PUT", ...this.#file("/directory", path, o));
        }
        catch (e) {
            if (!(e instanceof HortusError) || e.kind !== "exists")
                throw e;
        }
    }
    move(from, to, o) {
        return this.#transport.call("POST", ...this.#file("/move", from, o, { to }));
    }
    /** Removes a file, or a directory with everything in it. */
    remove(path, o) {
        return this.#transport.order("DELETE", ...this.#file("", path, o));
    }
    // Code.
    /** Runs a piece of code. What it defines stays for the next piece. An error of the code is in the result. */
    async runCode(code, o = {}) {
        const out = { text: "", stdout: "", stderr: "", results: [] };
        let size = 0;
        for await (const e of this.codeEvents(code, o)) {
            o.onEvent?.(e);
            if ((size += (e.text ?? "").length) > maxAnswer)
                throw tooMuch("the code");
            if (e.type === "stdout")
                out.stdout += e.text ?? "";
            else if (e.type === "stderr")
                out.stderr += e.text ?? "";
            else if (e.type === "error")
                out.error = { name: e.name ?? "", value: e.value ?? "", traceback: e.traceback ?? "" };
            else if (e.type === "result") {
                out.results.push(e);
                if (e.main)
                    out.text = e.text ?? "";
            }
        }
        return out;
    }
    /** Runs a piece of code and yields its events. The code is interrupted if the loop is left. */
    codeEvents(code, o = {}) {
        const { language, context, env, signal } = o;
        return this.#transport.lines(`${this.#path}/code`, { signal, json: { code, language, context, env } });
    }
    codeContexts(o) {
        return this.#transport.call("GET", `${this.#path}/code/contexts`, o);
    }
    createCodeContext(request = {}, o) {
        return this.#transport.call("POST", `${this.#path}/code/contexts`, { ...o, json: request });
    }
    deleteCodeContext(id, o) {
        return this.#transport.order("DELETE", `${this.#path}/code/contexts/${segment(id)}`, o);
    }
    restartCodeContext(id, o) {
        return this.#transport.order("POST", `${this.#path}/code/contexts/${segment(id)}/restart`, o);
    }
    interruptCode(id, o) {
        return this.#transport.order("POST", `${this.#path}/code/contexts/${segment(id)}/interrupt`, o);
    }
}
/** A command in a sandbox. */
export class Command {
    id;
    #transport;
    #path;
    /** @internal */
    constructor(transport, path, id) {
        this.#transport = transport;
        this.#path = path;
        this.id = id;
    }
    info(o) {
        return this.#transport.call("GET", this.#path, o);
    }
    /** Yields what the command writes from a byte of its output on, and then its end. */
    events(o = {}) {
        return this.#transport.follow(`${this.#path}/output`, "offset", o.offset ?? 0, o.signal, (m) => this.#read(m));
    }
    #read(m) {
        if (m.event === "exit")
            return { item: { type: "exit", exec: parse(m.data, this.#path) }, at: 0, last: true };
        if (m.event === "gap") {
            const gap = parse(m.data, this.#path);
            return { item: { type: "gap", from: gap.from, to: gap.to }, at: gap.to, last: false };
        }
        const o = parse(m.data, this.#path);
        const data = fromBase64(o.data);
        return { item: { type: "output", stream: o.stream, data, offset: o.offset }, at: o.offset + data.length, last: false };
    }
    /** Waits for the end, with all output from the beginning on, up to 64 MiB. */
    async wait(o = {}) {
        const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
        const text = { stdout: "", stderr: "" };
        const receivers = { stdout: o.onStdout, stderr: o.onStderr };
        let size = 0;
        let lostBytes = 0;
        const add = (to, piece) => {
            text[to] += piece;
            if (piece)
                receivers[to]?.(piece);
        };
        for await (const e of this.events({ signal: o.signal })) {
            if (e.type === "gap")
                lostBytes += e.to - e.from;
            else if (e.type === "output") {
                if ((size += e.data.length) > maxAnswer)
                    throw tooMuch(`command ${this.id}`);
                const to = e.stream === "stderr" ? "stderr" : "stdout";
                add(to, decoders[to].decode(e.data, { stream: true }));
            }
            else {
                add("stdout", decoders.stdout.decode());
                add("stderr", decoders.stderr.decode());
                const exit = e.exec.exit ?? { code: -1, cause: "unknown" };
                return { exitCode: exit.code, ...text, exit, lostBytes };
            }
        }
        throw new HortusError("unavailable", `the end of command ${this.id} is unknown`);
    }
    /** Writes to the command's input, and ends it if close is true. With pty it types into its terminal, 64 KiB at most. */
    write(data, o = {}) {
        return this.#transport.order("POST", `${this.#path}/stdin`, { signal: o.signal, query: { close: o.close, pty: o.pty }, bytes: data });
    }
    /** Sets the size of the command's terminal. */
    resize(size, o) {
        return this.#transport.order("POST", `${this.#path}/size`, { ...o, json: size });
    }
    /** Sends a signal, 1 to 31, to the command's process group. */
    signal(signal, o) {
        return this.#transport.order("POST", `${this.#path}/signal`, { ...o, json: { signal } });
    }
    /** Kills the command's process group and returns when its end was seen. */
    kill(o) {
        return this.#transport.call("POST", `${this.#path}/kill`, o);
    }
}
export async function createSandbox(transport, request, o) {
    const row = await transport.wait("/v1/sandboxes", { signal: o.signal, idempotencyKey: o.idempotencyKey, onWait: o.onWait, json: request });
    return new Sandbox(transport, row.id);
}
function tooMuch(of) {
    return new HortusError("exhausted", `the output of ${of} is larger than ${maxAnswer >> 20} MiB`, { hint: "write it to a file, or read its events and do not keep them" });
}
function fromBase64(text) {
    try {
        return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    }
    catch (cause) {
        throw new HortusError("internal", "the daemon sent output that is not base64", { cause });
    }
}

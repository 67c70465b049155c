/// <reference lib="esnext.disposable" preserve="true" />
import type {
  CodeContext, CodeEvent, CreateCodeContext, CreateSandbox, CreateSnapshot, EgressPolicy, Event, Exec, ExecOutput, Exit, FileInfo, ForkResult, ForkSandbox,
  BrowserFrame, Killed, KilledExec, PauseSandbox, PortURL, PTYSize, RunCode, Sandbox as Info, Snapshot, Stats,
} from "../types.js";
import { decode, HortusError, maxAnswer, parse, segment, Transport } from "./transport.ts";
import type { Bytes, CallOptions, Message, Options, WaitingOptions } from "./transport.ts";

/** How a command starts. */
export interface StartOptions extends CallOptions {
  /** Where it runs; default /workspace. */
  dir?: string;
  /** Added to the sandbox's environment. */
  env?: Record<string, string>;
  user?: string;
  /** Kills the command after this time. */
  timeoutMs?: number;
  /** True keeps the command's input open for {@link Command.write}. */
  stdin?: boolean;
  /** Gives the command a terminal of this size. */
  pty?: PTYSize;
  tag?: string;
}

/** How a command is waited for. */
export interface WaitOptions extends CallOptions {
  /** Receives the output as it arrives; that of a terminal too. */
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
}

export interface RunOptions extends Omit<StartOptions, "stdin">, WaitOptions {
  /** The command's whole input. */
  stdin?: Bytes;
}

/** What came of a command. An exit code other than 0 is a result, not an error. */
export interface Result {
  exitCode: number;
  stdout: string;
  stderr: string;
  /** The signal or the cause of the end, if it has one. */
  exit: Exit;
  /** Bytes of output that the sandbox no longer had when they were read; almost always 0. */
  lostBytes: number;
}

/** What a command does: it writes, output is no longer there, it ends. */
export type CommandEvent =
  | { type: "output"; stream: "stdout" | "stderr" | "pty"; data: Uint8Array; offset: number }
  | { type: "gap"; from: number; to: number }
  | { type: "exit"; exec: Exec };

/** What came of a piece of code. */
export interface CodeResult {
  /** The value of the last expression as text; "" if there is none. */
  text: string;
  stdout: string;
  stderr: string;
  /** What the code displayed, and its value: text, and other forms such as png. */
  results: CodeEvent[];
  /** Why the code failed. */
  error?: { name: string; value: string; traceback: string };
}

export interface CodeOptions extends Omit<RunCode, "code">, CallOptions {
  /** Receives the events as they arrive. */
  onEvent?: (event: CodeEvent) => void;
}

export interface FileOptions extends CallOptions {
  /** The user whose rights apply. */
  user?: string;
}

/** The children of a fork. `result.children` says for each one whether it was created. */
export interface Fork {
  result: ForkResult;
  /** Those that were created, of which there is at least one. */
  sandboxes: [Sandbox, ...Sandbox[]];
}

/** A sandbox. Only `kill` and its deadline end it. */
export class Sandbox {
  readonly id: string;
  #transport: Transport;
  #path: string;

  /** @internal */
  constructor(transport: Transport, id: string) {
    this.#transport = transport;
    this.id = id;
    this.#path = `/v1/sandboxes/${segment(id)}`;
  }

  /** Creates a sandbox with a client of the environment's daemon, or of the options' one. */
  static async create(request: CreateSandbox = {}, options: Options & WaitingOptions = {}): Promise<Sandbox> {
    return createSandbox(new Transport(options), request, options);
  }

  info(o?: CallOptions): Promise<Info> {
    return this.#transport.call("GET", this.#path, o);
  }

  /** Ends the sandbox and everything in it. */
  kill(o?: CallOptions): Promise<Killed> {
    return this.#transport.call("DELETE", this.#path, o);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.kill();
    } catch (e) {
      if (!(e instanceof HortusError) || e.status !== 410) throw e;
    }
  }

  /** Moves the deadline to a time from now. */
  setTTL(ttlMs: number, o?: CallOptions): Promise<Info> {
    return this.#transport.call("POST", `${this.#path}/ttl`, { ...o, json: { ttlMs } });
  }

  /** Freezes the sandbox; with toDisk its memory is saved and released. */
  pause(request: PauseSandbox = {}, o?: CallOptions): Promise<Info> {
    return this.#transport.call("POST", `${this.#path}/pause`, { ...o, json: request });
  }

  resume(o?: WaitingOptions): Promise<Info> {
    return this.#transport.wait(`${this.#path}/resume`, o);
  }

  stats(o?: CallOptions): Promise<Stats> {
    return this.#transport.call("GET", `${this.#path}/stats`, o);
  }

  /** The URL at which a program, such as Playwright, reaches the browser inside over the Chrome DevTools Protocol, once. */
  browserURL(o?: CallOptions): Promise<PortURL> {
    return this.#transport.call("POST", `${this.#path}/browser/url`, o);
  }

  /** The URL at which a browser opens the editor inside, in a sandbox of a template with one, once. */
  ideURL(o?: CallOptions): Promise<PortURL> {
    return this.#transport.call("POST", `${this.#path}/ide/url`, o);
  }

  /** Yields what the browser inside shows, until the connection ends. */
  async *browserScreen(o: CallOptions = {}): AsyncGenerator<BrowserFrame, void, void> {
    const path = `${this.#path}/browser/screen`;
    for await (const m of this.#transport.stream(path, o)) yield parse<BrowserFrame>(m.data, path);
  }

  /** What the sandbox used during the last hour, every five seconds, the oldest first. */
  samples(o?: CallOptions): Promise<Stats[]> {
    return this.#transport.call("GET", `${this.#path}/samples`, o);
  }

  /** Saves the sandbox as it is now; with a name the snapshot is a template. */
  snapshot(request: CreateSnapshot = {}, o?: CallOptions): Promise<Snapshot> {
    return this.#transport.call("POST", `${this.#path}/snapshots`, { ...o, json: request });
  }

  /** Creates sandboxes that continue from where this one is. It fails if no child was created. */
  async fork(request: ForkSandbox = {}, o?: WaitingOptions): Promise<Fork> {
    const result = await this.#transport.wait<ForkResult>(`${this.#path}/forks`, { ...o, json: request });
    const sandboxes = result.children.flatMap((c) => (c.sandbox ? [new Sandbox(this.#transport, c.sandbox.id)] : []));
    const failed = result.children.find((c) => c.error)?.error;
    const [first, ...others] = sandboxes;
    if (first) return { result, sandboxes: [first, ...others] };
    throw new HortusError(failed?.kind ?? "internal", failed?.message ?? "the fork has no children", { hint: failed?.hint, retryAfterMs: failed?.retryAfterMs });
  }

  /** Replaces the policy of outgoing connections. */
  setEgress(policy: EgressPolicy, o?: CallOptions): Promise<Info> {
    return this.#transport.call("PUT", `${this.#path}/egress`, { ...o, json: policy });
  }

  /** Yields the sandbox's events after a number, and ends when the sandbox has ended. */
  events(o: { after?: number; signal?: AbortSignal } = {}): AsyncGenerator<Event, void, void> {
    return this.#transport.follow(`${this.#path}/events`, "after", o.after ?? 0, o.signal, (m) => {
      const e = parse<Event>(m.data, this.#path);
      const ended = e.type === "sandbox.state" && ["ended", "lost"].includes(e.data?.state ?? "");
      return { item: e, at: e.seq, last: ended };
    });
  }

  // Commands.

  /** Runs a command and waits for its end. A string is run by the shell. If the call is ended by its signal, so is the command. */
  async run(args: string | readonly string[], o: RunOptions = {}): Promise<Result> {
    const { stdin, ...start } = o;
    const command = await this.start(args, { ...start, stdin: stdin !== undefined });
    try {
      // A command need not read its input, so only an end of the command counts.
      if (stdin !== undefined) command.write(stdin, { close: true, signal: o.signal }).catch(() => {});
      return await command.wait(o);
    } catch (e) {
      await command.kill().catch(() => {});
      throw e;
    }
  }

  /** Starts a command. It runs whether or not its output is read. */
  async start(args: string | readonly string[], o: StartOptions = {}): Promise<Command> {
    const { dir, env, user, timeoutMs, stdin, pty, tag, ...call } = o;
    const json = { args: typeof args === "string" ? ["sh", "-c", args] : args, dir, env, user, timeoutMs, stdin, pty, tag };
    const row = await this.#transport.call<Exec>("POST", `${this.#path}/execs`, { signal: call.signal, idempotencyKey: call.idempotencyKey, json });
    return this.command(row.id);
  }

  /** Returns a command that was started earlier. */
  command(id: string): Command {
    return new Command(this.#transport, `${this.#path}/execs/${segment(id)}`, id);
  }

  /** Lists the commands, the newest first. */
  commands(o?: CallOptions): Promise<Exec[]> {
    return this.#transport.list(`${this.#path}/execs`, {}, 0, o);
  }

  // Files. A path that does not begin with / starts in /workspace.

  #file(rest: string, path: string, o: FileOptions | undefined, more: Record<string, string | number> = {}) {
    return [`${this.#path}/files${rest}`, { signal: o?.signal, query: { path, user: o?.user, ...more } }] as const;
  }

  /** Reads a file of up to 64 MiB. */
  readFile(path: string, o?: FileOptions): Promise<Uint8Array> {
    return this.#transport.whole("GET", ...this.#file("", path, o));
  }

  async readText(path: string, o?: FileOptions): Promise<string> {
    return decode(await this.readFile(path, o));
  }

  /** Yields the content of a file of any size. */
  readStream(path: string, o?: FileOptions): AsyncGenerator<Uint8Array, void, void> {
    return this.#transport.bytes("GET", ...this.#file("", path, o));
  }

  /** Writes a file whole, with its parents. A stream is sent as it is read. */
  async writeFile(path: string, data: Bytes, o?: FileOptions): Promise<void> {
    const [route, request] = this.#file("", path, o);
    await this.#transport.order("PUT", route, { ...request, bytes: data });
  }

  listDir(path = ".", o?: FileOptions & { depth?: number }): Promise<FileInfo[]> {
    return this.#transport.call("GET", ...this.#file("/list", path, o, { depth: o?.depth ?? 1 }));
  }

  stat(path: string, o?: FileOptions): Promise<FileInfo> {
    return this.#transport.call("GET", ...this.#file("/info", path, o));
  }

  /** Creates a directory and its parents. One that exists is no error. */
  async makeDir(path: string, o?: FileOptions): Promise<void> {
    try {
      await this.#transport.order("PUT", ...this.#file("/directory", path, o));
    } catch (e) {
      if (!(e instanceof HortusError) || e.kind !== "exists") throw e;
    }
  }

  move(from: string, to: string, o?: FileOptions): Promise<FileInfo> {
    return this.#transport.call("POST", ...this.#file("/move", from, o, { to }));
  }

  /** Removes a file, or a directory with everything in it. */
  remove(path: string, o?: FileOptions): Promise<void> {
    return this.#transport.order("DELETE", ...this.#file("", path, o));
  }

  // Code.

  /** Runs a piece of code. What it defines stays for the next piece. An error of the code is in the result. */
  async runCode(code: string, o: CodeOptions = {}): Promise<CodeResult> {
    const out: CodeResult = { text: "", stdout: "", stderr: "", results: [] };
    let size = 0;
    for await (const e of this.codeEvents(code, o)) {
      o.onEvent?.(e);
      if ((size += (e.text ?? "").length) > maxAnswer) throw tooMuch("the code");
      if (e.type === "stdout") out.stdout += e.text ?? "";
      else if (e.type === "stderr") out.stderr += e.text ?? "";
      else if (e.type === "error") out.error = { name: e.name ?? "", value: e.value ?? "", traceback: e.traceback ?? "" };
      else if (e.type === "result") {
        out.results.push(e);
        if (e.main) out.text = e.text ?? "";
      }
    }
    return out;
  }

  /** Runs a piece of code and yields its events. The code is interrupted if the loop is left. */
  codeEvents(code: string, o: CodeOptions = {}): AsyncGenerator<CodeEvent, void, void> {
    const { language, context, env, signal } = o;
    return this.#transport.lines(`${this.#path}/code`, { signal, json: { code, language, context, env } });
  }

  codeContexts(o?: CallOptions): Promise<CodeContext[]> {
    return this.#transport.call("GET", `${this.#path}/code/contexts`, o);
  }

  createCodeContext(request: CreateCodeContext = {}, o?: CallOptions): Promise<CodeContext> {
    return this.#transport.call("POST", `${this.#path}/code/contexts`, { ...o, json: request });
  }

  deleteCodeContext(id: string, o?: CallOptions): Promise<void> {
    return this.#transport.order("DELETE", `${this.#path}/code/contexts/${segment(id)}`, o);
  }

  restartCodeContext(id: string, o?: CallOptions): Promise<void> {
    return this.#transport.order("POST", `${this.#path}/code/contexts/${segment(id)}/restart`, o);
  }

  interruptCode(id: string, o?: CallOptions): Promise<void> {
    return this.#transport.order("POST", `${this.#path}/code/contexts/${segment(id)}/interrupt`, o);
  }
}

/** A command in a sandbox. */
export class Command {
  readonly id: string;
  #transport: Transport;
  #path: string;

  /** @internal */
  constructor(transport: Transport, path: string, id: string) {
    this.#transport = transport;
    this.#path = path;
    this.id = id;
  }

  info(o?: CallOptions): Promise<Exec> {
    return this.#transport.call("GET", this.#path, o);
  }

  /** Yields what the command writes from a byte of its output on, and then its end. */
  events(o: { offset?: number; signal?: AbortSignal } = {}): AsyncGenerator<CommandEvent, void, void> {
    return this.#transport.follow<CommandEvent>(`${this.#path}/output`, "offset", o.offset ?? 0, o.signal, (m) => this.#read(m));
  }

  #read(m: Message): { item: CommandEvent; at: number; last: boolean } {
    if (m.event === "exit") return { item: { type: "exit", exec: parse<Exec>(m.data, this.#path) }, at: 0, last: true };
    if (m.event === "gap") {
      const gap = parse<{ from: number; to: number }>(m.data, this.#path);
      return { item: { type: "gap", from: gap.from, to: gap.to }, at: gap.to, last: false };
    }
    const o = parse<ExecOutput>(m.data, this.#path);
    const data = fromBase64(o.data);
    return { item: { type: "output", stream: o.stream as "stdout", data, offset: o.offset }, at: o.offset + data.length, last: false };
  }

  /** Waits for the end, with all output from the beginning on, up to 64 MiB. */
  async wait(o: WaitOptions = {}): Promise<Result> {
    const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
    const text = { stdout: "", stderr: "" };
    const receivers = { stdout: o.onStdout, stderr: o.onStderr };
    let size = 0;
    let lostBytes = 0;
    const add = (to: "stdout" | "stderr", piece: string) => {
      text[to] += piece;
      if (piece) receivers[to]?.(piece);
    };
    for await (const e of this.events({ signal: o.signal })) {
      if (e.type === "gap") lostBytes += e.to - e.from;
      else if (e.type === "output") {
        if ((size += e.data.length) > maxAnswer) throw tooMuch(`command ${this.id}`);
        const to = e.stream === "stderr" ? "stderr" : "stdout";
        add(to, decoders[to].decode(e.data, { stream: true }));
      } else {
        add("stdout", decoders.stdout.decode());
        add("stderr", decoders.stderr.decode());
        const exit = e.exec.exit ?? { code: -1, cause: "unknown" };
        return { exitCode: exit.code, ...text, exit, lostBytes };
      }
    }
    throw new HortusError("unavailable", `the end of command ${this.id} is unknown`);
  }

  /** Writes to the command's input, and ends it if close is true. With pty it types into its terminal, 64 KiB at most. */
  write(data: Bytes, o: CallOptions & { close?: boolean; pty?: boolean } = {}): Promise<void> {
    return this.#transport.order("POST", `${this.#path}/stdin`, { signal: o.signal, query: { close: o.close, pty: o.pty }, bytes: data });
  }

  /** Sets the size of the command's terminal. */
  resize(size: PTYSize, o?: CallOptions): Promise<void> {
    return this.#transport.order("POST", `${this.#path}/size`, { ...o, json: size });
  }

  /** Sends a signal, 1 to 31, to the command's process group. */
  signal(signal: number, o?: CallOptions): Promise<void> {
    return this.#transport.order("POST", `${this.#path}/signal`, { ...o, json: { signal } });
  }

  /** Kills the command's process group and returns when its end was seen. */
  kill(o?: CallOptions): Promise<KilledExec> {
    return this.#transport.call("POST", `${this.#path}/kill`, o);
  }
}

export async function createSandbox(transport: Transport, request: CreateSandbox, o: WaitingOptions): Promise<Sandbox> {
  const row = await transport.wait<Info>("/v1/sandboxes", { signal: o.signal, idempotencyKey: o.idempotencyKey, onWait: o.onWait, json: request });
  return new Sandbox(transport, row.id);
}

function tooMuch(of: string): HortusError {
  return new HortusError("exhausted", `the output of ${of} is larger than ${maxAnswer >> 20} MiB`, { hint: "write it to a file, or read its events and do not keep them" });
}

function fromBase64(text: string): Uint8Array {
  try {
    return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  } catch (cause) {
    throw new HortusError("internal", "the daemon sent output that is not base64", { cause });
  }
}

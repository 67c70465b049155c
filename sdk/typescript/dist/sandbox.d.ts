/// <reference lib="esnext.disposable" preserve="true" />
import type { CodeContext, CodeEvent, CreateCodeContext, CreateSandbox, CreateSnapshot, EgressPolicy, Event, Exec, Exit, FileInfo, ForkResult, ForkSandbox, BrowserFrame, Killed, KilledExec, PauseSandbox, PortURL, PTYSize, RunCode, Sandbox as Info, Snapshot, Stats } from "../types.js";
import { Transport } from "./transport.ts";
import type { Bytes, CallOptions, Options, WaitingOptions } from "./transport.ts";
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
export type CommandEvent = {
    type: "output";
    stream: "stdout" | "stderr" | "pty";
    data: Uint8Array;
    offset: number;
} | {
    type: "gap";
    from: number;
    to: number;
} | {
    type: "exit";
    exec: Exec;
};
/** What came of a piece of code. */
export interface CodeResult {
    /** The value of the last expression as text; "" if there is none. */
    text: string;
    stdout: string;
    stderr: string;
    /** What the code displayed, and its value: text, and other forms such as png. */
    results: CodeEvent[];
    /** Why the code failed. */
    error?: {
        name: string;
        value: string;
        traceback: string;
    };
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
export declare class Sandbox {
    #private;
    readonly id: string;
    /** @internal */
    constructor(transport: Transport, id: string);
    /** Creates a sandbox with a client of the environment's daemon, or of the options' one. */
    static create(request?: CreateSandbox, options?: Options & WaitingOptions): Promise<Sandbox>;
    info(o?: CallOptions): Promise<Info>;
    /** Ends the sandbox and everything in it. */
    kill(o?: CallOptions): Promise<Killed>;
    [Symbol.asyncDispose](): Promise<void>;
    /** Moves the deadline to a time from now. */
    setTTL(ttlMs: number, o?: CallOptions): Promise<Info>;
    /** Freezes the sandbox; with toDisk its memory is saved and released. */
    pause(request?: PauseSandbox, o?: CallOptions): Promise<Info>;
    resume(o?: WaitingOptions): Promise<Info>;
    stats(o?: CallOptions): Promise<Stats>;
    /** The URL at which a program, such as Playwright, reaches the browser inside over the Chrome DevTools Protocol, once. */
    browserURL(o?: CallOptions): Promise<PortURL>;
    /** The URL at which a browser opens the editor inside, in a sandbox of a template with one, once. */
    ideURL(o?: CallOptions): Promise<PortURL>;
    /** Yields what the browser inside shows, until the connection ends. */
    browserScreen(o?: CallOptions): AsyncGenerator<BrowserFrame, void, void>;
    /** What the sandbox used during the last hour, every five seconds, the oldest first. */
    samples(o?: CallOptions): Promise<Stats[]>;
    /** Saves the sandbox as it is now; with a name the snapshot is a template. */
    snapshot(request?: CreateSnapshot, o?: CallOptions): Promise<Snapshot>;
    /** Creates sandboxes that continue from where this one is. It fails if no child was created. */
    fork(request?: ForkSandbox, o?: WaitingOptions): Promise<Fork>;
    /** Replaces the policy of outgoing connections. */
    setEgress(policy: EgressPolicy, o?: CallOptions): Promise<Info>;
    /** Yields the sandbox's events after a number, and ends when the sandbox has ended. */
    events(o?: {
        after?: number;
        signal?: AbortSignal;
    }): AsyncGenerator<Event, void, void>;
    /** Runs a command and waits for its end. A string is run by the shell. If the call is ended by its signal, so is the command. */
    run(args: string | readonly string[], o?: RunOptions): Promise<Result>;
    /** Starts a command. It runs whether or not its output is read. */
    start(args: string | readonly string[], o?: StartOptions): Promise<Command>;
    /** Returns a command that was started earlier. */
    command(id: string): Command;
    /** Lists the commands, the newest first. */
    commands(o?: CallOptions): Promise<Exec[]>;
    /** Reads a file of up to 64 MiB. */
    readFile(path: string, o?: FileOptions): Promise<Uint8Array>;
    readText(path: string, o?: FileOptions): Promise<string>;
    /** Yields the content of a file of any size. */
    readStream(path: string, o?: FileOptions): AsyncGenerator<Uint8Array, void, void>;
    /** Writes a file whole, with its parents. A stream is sent as it is read. */
    writeFile(path: string, data: Bytes, o?: FileOptions): Promise<void>;
    listDir(path?: string, o?: FileOptions & {
        depth?: number;
    }): Promise<FileInfo[]>;
    stat(path: string, o?: FileOptions): Promise<FileInfo>;
    /** Creates a directory and its parents. One that exists is no error. */
    makeDir(path: string, o?: FileOptions): Promise<void>;
    move(from: string, to: string, o?: FileOptions): Promise<FileInfo>;
    /** Removes a file, or a directory with everything in it. */
    remove(path: string, o?: FileOptions): Promise<void>;
    /** Runs a piece of code. What it defines stays for the next piece. An error of the code is in the result. */
    runCode(code: string, o?: CodeOptions): Promise<CodeResult>;
    /** Runs a piece of code and yields its events. The code is interrupted if the loop is left. */
    codeEvents(code: string, o?: CodeOptions): AsyncGenerator<CodeEvent, void, void>;
    codeContexts(o?: CallOptions): Promise<CodeContext[]>;
    createCodeContext(request?: CreateCodeContext, o?: CallOptions): Promise<CodeContext>;
    deleteCodeContext(id: string, o?: CallOptions): Promise<void>;
    restartCodeContext(id: string, o?: CallOptions): Promise<void>;
    interruptCode(id: string, o?: CallOptions): Promise<void>;
}
/** A command in a sandbox. */
export declare class Command {
    #private;
    readonly id: string;
    /** @internal */
    constructor(transport: Transport, path: string, id: string);
    info(o?: CallOptions): Promise<Exec>;
    /** Yields what the command writes from a byte of its output on, and then its end. */
    events(o?: {
        offset?: number;
        signal?: AbortSignal;
    }): AsyncGenerator<CommandEvent, void, void>;
    /** Waits for the end, with all output from the beginning on, up to 64 MiB. */
    wait(o?: WaitOptions): Promise<Result>;
    /** Writes to the command's input, and ends it if close is true. With pty it types into its terminal, 64 KiB at most. */
    write(data: Bytes, o?: CallOptions & {
        close?: boolean;
        pty?: boolean;
    }): Promise<void>;
    /** Sets the size of the command's terminal. */
    resize(size: PTYSize, o?: CallOptions): Promise<void>;
    /** Sends a signal, 1 to 31, to the command's process group. */
    signal(signal: number, o?: CallOptions): Promise<void>;
    /** Kills the command's process group and returns when its end was seen. */
    kill(o?: CallOptions): Promise<KilledExec>;
}
export declare function createSandbox(transport: Transport, request: CreateSandbox, o: WaitingOptions): Promise<Sandbox>;

/** Texts for people: times, sizes, costs. */

export function duration(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (s < 60) return `${s} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return s % 60 && m < 10 ? `${m} min ${s % 60} s` : `${m} min`;
  const h = Math.floor(m / 60);
  if (h < 48) return m % 60 ? `${h} h ${m % 60} min` : `${h} h`;
  return `${Math.floor(h / 24)} d`;
}

export function since(at: string | undefined, now: number): string {
  return at ? `${duration(now - Date.parse(at))} ago` : "";
}

/** The time between two instants, or until now. */
export function span(from: string | undefined, to: string | undefined, now: number): number {
  return from ? (to ? Date.parse(to) : now) - Date.parse(from) : 0;
}

export function size(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let n = bytes;
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

export function cost(usd: number | undefined): string {
  if (!usd) return "$0";
  return usd < 0.01 ? "< $0.01" : `$${usd.toFixed(2)}`;
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** The first line of a text, shortened. */
export function headline(text: string | undefined, most = 120): string {
  const line = (text ?? "").trim().split("\n", 1)[0] ?? "";
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/** A command as it would be typed. */
export function command(args: readonly string[]): string {
  if (args.length === 3 && args[1] === "-c" && /^(\/bin\/)?(ba)?sh$/.test(args[0] ?? "")) return args[2] ?? "";
  return args.map((a) => (/^[\w@%+=:,./-]+$/.test(a) ? a : `'${a.replaceAll("'", "'\\''")}'`)).join(" ");
}

/** Reads base64 as text. What is not UTF-8 is replaced. */
export function fromBase64(data: string): string {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)));
  } catch {
    return "";
  }
}

// What a program writes to a terminal is shown as text without its control sequences.
const controls = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

export function plain(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(/[^\n]*\r(?!\n)/g, "").replace(controls, "");
}

/** Has the browser save content as a file. */
export function save(name: string, content: BlobPart, type = "application/octet-stream"): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

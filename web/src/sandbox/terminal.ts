/** The terminal itself, in a chunk of its own: it is loaded when a terminal is opened. */
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { allowStyles } from "../lib/nonce.ts";

export interface Screen {
  write(data: Uint8Array): void;
  focus(): void;
  fit(): { cols: number; rows: number };
  dispose(): void;
}

const dark = { background: "#14181a", foreground: "#e6ebe7", cursor: "#7fd1a3", selectionBackground: "#3b4a42" };
const light = { background: "#ffffff", foreground: "#1c2420", cursor: "#1f6b45", selectionBackground: "#cfe3d6" };

export function openScreen(at: HTMLElement, input: (data: string) => void): Screen {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const restore = allowStyles();
  const term = new Terminal({
    theme: scheme.matches ? dark : light,
    fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"),
    fontSize: 14,
    scrollback: 10_000,
    screenReaderMode: false, // the log beside the terminal is for screen readers
  });
  const fit = new FitAddon();
  term.loadAddon(fit);
  term.open(at);
  term.textarea?.setAttribute("aria-label", "Terminal input");
  const themed = () => (term.options.theme = scheme.matches ? dark : light);
  scheme.addEventListener("change", themed);
  const typed = [term.onData(input), term.onBinary(input)];
  return {
    write: (data) => term.write(data),
    focus: () => term.focus(),
    fit: () => {
      fit.fit();
      return { cols: term.cols, rows: term.rows };
    },
    dispose: () => {
      scheme.removeEventListener("change", themed);
      for (const t of typed) t.dispose();
      term.dispose();
      restore();
    },
  };
}

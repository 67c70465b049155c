/** The editor, in a chunk of its own: it is loaded when a file is opened. */
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { nonce } from "../lib/nonce.ts";

export interface Editor {
  text(): string;
  dispose(): void;
}

function language(path: string): Extension {
  if (/\.(c|m)?[jt]sx?$/.test(path)) return javascript({ typescript: /\.(c|m)?tsx?$/.test(path), jsx: /x$/.test(path) });
  if (path.endsWith(".json")) return json();
  if (path.endsWith(".py")) return python();
  return [];
}

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword], color: "var(--busy)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--wait)" },
  { tag: tags.comment, color: "var(--soft)", fontStyle: "italic" },
  { tag: [tags.definition(tags.variableName), tags.function(tags.variableName)], color: "var(--accent)" },
]);

const look = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--paper)", color: "var(--ink)", fontSize: "0.87rem" },
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--sunk)", color: "var(--soft)", border: "0" },
  ".cm-activeLine": { backgroundColor: "transparent", boxShadow: "inset 3px 0 var(--accent)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--good-ground) !important" },
});

export function openEditor(at: HTMLElement, path: string, text: string, changed: () => void, save: () => void): Editor {
  const view = new EditorView({
    parent: at,
    state: EditorState.create({
      doc: text,
      extensions: [
        EditorView.cspNonce.of(nonce),
        EditorView.contentAttributes.of({ "aria-label": `Content of ${path}` }),
        lineNumbers(), history(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(), syntaxHighlighting(colours), look, language(path),
        keymap.of([{ key: "Mod-s", run: () => (save(), true) }, ...defaultKeymap, ...historyKeymap, indentWithTab]),
        EditorView.updateListener.of((u) => u.docChanged && changed()),
      ],
    }),
  });
  return { text: () => view.state.doc.toString(), dispose: () => view.destroy() };
}

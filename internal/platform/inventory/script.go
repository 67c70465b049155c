package inventory

import (
	"fmt"
	"strings"
)

// Bounds of what a script may print; more is cut, and what is cut is not known.
const (
	MaxOutput    = 256 << 10 // bytes
	maxLibraries = 2000
	maxName      = 100
	maxVersion   = 64
)

// python prints every distribution that a program can import.
const python = `
import importlib.metadata as m
seen = {}
for d in m.distributions():
    n, v = d.metadata["Name"], d.version
    if n and v: seen.setdefault(n, v)
print("asked python")
for n in sorted(seen)[:2000]: print("library python", n, seen[n])
`

// node prints what a program can require from anywhere, and, as commands, what
// lies beside Node.
const node = `
const fs = require("fs"), path = require("path");
console.log("asked javascript");
if (require("module").globalPaths.includes("/usr/share/nodejs")) console.log("debian node");
const list = (dir, kind) => {
  let names = [];
  try { names = fs.readdirSync(dir) } catch { return }
  for (const n of names) {
    if (n.startsWith("@") && !n.includes("/")) {
      try { names.push(...fs.readdirSync(path.join(dir, n)).map(s => n + "/" + s)) } catch {}
      continue;
    }
    try { console.log(kind, "javascript", n, JSON.parse(fs.readFileSync(path.join(dir, n, "package.json"))).version) } catch {}
  }
};
for (const dir of require("module").globalPaths) list(dir, "library");
const beside = path.join(fs.realpathSync(process.execPath), "..", "..");
for (const dir of ["lib/node_modules", "local/lib/node_modules"]) list(path.join(beside, dir), "command");
`

// Script is the shell script that asks. It needs a place for temporary files,
// reads nothing, and takes as long as the slowest program in it; its last line
// is "done".
func Script() string {
	var b strings.Builder
	b.WriteString("exec </dev/null\nd=$(mktemp -d) || exit 1\n")
	// One short write for each answer, so that answers do not mix.
	b.WriteString(`ask() { n=$1; shift; command -v "$1" >/dev/null || return; ` +
		`v=$("$@" 2>&1 | head -c 300 | tr '\n\r' '  '); printf 'tool %s %s\n' "$n" "$v"; }` + "\n")
	for _, t := range tools {
		if t.ask != "" {
			fmt.Fprintf(&b, "ask %s %s &\n", t.name, t.ask)
		}
	}
	fmt.Fprintf(&b, "python3 -I -c %s >\"$d/python\" 2>/dev/null &\n", quote(python))
	fmt.Fprintf(&b, "node -e %s >\"$d/node\" 2>/dev/null &\n", quote(node))
	b.WriteString("wait\ncat \"$d/python\" \"$d/node\"\nrm -r \"$d\"\necho done\n")
	return b.String()
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

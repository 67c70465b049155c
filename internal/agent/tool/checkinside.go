package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"

	"hortus.dev/internal/platform/lazyregexp"
)

const pythonCheck = `
import sys
try:
    import ast, json, os, warnings
    src = os.fsencode("".join(sys.argv[2:]))
except Exception:
    sys.exit(3)
warnings.simplefilter("ignore")
flags = ast.PyCF_ONLY_AST if sys.argv[1].endswith(".pyi") else 0
try:
    compile(src, sys.argv[1], "exec", flags, dont_inherit=True)
except SyntaxError as e:
    print(json.dumps([e.lineno or 0, e.offset or 0, type(e).__name__ + ": " + str(e.msg)]))
    sys.exit(1)
except ValueError as e:
    print(json.dumps([0, 0, str(e)]))
    sys.exit(1)
except BaseException:
    sys.exit(3)
`

// checkPython compiles in the sandbox, which runs nothing of it, looks at no
// module of the workspace (-I) and writes no cache. The text goes by arguments, so
// that no file has to be made and removed.
func (s *Set) checkPython(ctx context.Context, name, text string) (*problem, string, error) {
	return s.checkInside(ctx, text, "python3", "-I", "-S", "-c", pythonCheck, name)
}

const nodeCheck = `
const vm = require('vm'), mod = require('module');
const name = process.argv[1]; let src = process.argv.slice(2).join('');
const say = (e) => {
	const at = /^F:(\d+)/.exec(e.stack || '');
	console.log(JSON.stringify([at ? +at[1] : 0, 0, e.name + ': ' + e.message]));
	process.exit(1);
};
if (/\.[mc]?ts$/.test(name)) {
	if (!mod.stripTypeScriptTypes) process.exit(4);
	try { mod.stripTypeScriptTypes(src, {mode: 'transform'}); } catch (e) {
		if (e.code !== 'ERR_INVALID_TYPESCRIPT_SYNTAX') process.exit(3);
		const at = /:(\d+)/.exec(e.stack || '');
		console.log(JSON.stringify([at ? +at[1] : 0, 0, String(e.message).split('\n')[0]]));
		process.exit(1);
	}
	process.exit(0);
}
if (src.startsWith('#!')) src = '//' + src;
let first;
if (!name.endsWith('.mjs')) {
	try { new vm.Script(mod.wrap(src), {filename: 'F'}); process.exit(0); } catch (e) { first = e; }
	if (!(first instanceof SyntaxError)) process.exit(3);
}
if (!name.endsWith('.cjs')) {
	try { new vm.SourceTextModule(src, {identifier: 'F'}); process.exit(0); } catch (e) {
		if (!(e instanceof SyntaxError)) process.exit(3);
		if (!first || /^\s*(import|export)\b/m.test(src)) throw e; // the engine then says where
	}
}
say(first);
`

var (
	nodeWhere = lazyregexp.New(`(?m)^F:(\d+)$`)
	nodeWhat  = lazyregexp.New(`(?m)^(SyntaxError: .*)$`)
)

// checkNode parses in the sandbox with node: JavaScript as a script and as a
// module, TypeScript where node can.
func (s *Set) checkNode(ctx context.Context, name, text string) (*problem, string, error) {
	return s.checkInside(ctx, text, "node", "--no-warnings", "--experimental-vm-modules", "-e", nodeCheck, "--", name)
}

// checkInside runs a checker with the text in its arguments.
func (s *Set) checkInside(ctx context.Context, text string, argv ...string) (*problem, string, error) {
	const ask = `command -v "$1" >/dev/null 2>&1 || exit 127; exec "$@"`
	argv = append([]string{"sh", "-c", ask, "sh"}, argv...)
	program := argv[4]
	res, err := s.program(ctx, "", append(argv, pieces(text)...)...)
	if err != nil {
		return nil, "", err
	}
	switch {
	case res.exit.Code == 0 && res.exit.Cause == "":
		return nil, "", nil
	case res.exit.Code == 127:
		return nil, program + " is not installed", nil
	case res.exit.Code == 4:
		return nil, "this " + program + " cannot read TypeScript", nil
	case res.exit.Code != 1:
		return nil, program + " failed to check the file", nil
	}
	var said []any
	if json.Unmarshal(bytes.TrimSpace(res.out), &said) == nil && len(said) == 3 {
		line, _ := said[0].(float64)
		column, _ := said[1].(float64)
		what, _ := said[2].(string)
		return &problem{clampLine(line), clampLine(column), what}, "", nil
	}
	if m := nodeWhat.FindSubmatch(res.errs); m != nil {
		p := &problem{text: string(m[1])}
		if l := nodeWhere.FindSubmatch(res.errs); l != nil {
			p.line, _ = strconv.Atoi(string(l[1]))
		}
		return p, "", nil
	}
	return nil, program + " failed to check the file", nil
}

// clampLine makes a number that the sandbox said fit to count lines with.
func clampLine(x float64) int {
	if !(x >= 0 && x < 1<<31) {
		return 0
	}
	return int(x)
}

// pieces cuts a text into arguments that the kernel takes, between runes.
func pieces(text string) (all []string) {
	const most = 100_000
	for len(text) > most {
		n := len(clipExact(text, most))
		all = append(all, text[:n])
		text = text[n:]
	}
	return append(all, text)
}

package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hortus.dev/internal/platform/lazyregexp"
)

// Bounds of the checks.
const (
	// maxChecked is the largest text whose syntax is checked, in bytes: what fits
	// into the arguments of one command.
	maxChecked = 512 << 10
	// maxDepth is the deepest nesting that a parser in this process gets to see.
	maxDepth = 1000
)

// check looks for a syntax error, by the file's name. Nil is none; skipped says
// why nothing was checked, and is empty for files that have no syntax to check.
func (s *Set) check(ctx context.Context, w where, text string) (found *problem, skipped string, err error) {
	var local func(name, text string) (*problem, string)
	var script func(ctx context.Context, name, text string) (*problem, string, error)
	switch name := path.Base(w.abs); path.Ext(name) {
	case ".go":
		local = checkGo
	case ".json":
		if !commented(w.abs) {
			local = checkJSON
		}
	case ".yaml", ".yml":
		local = checkYAML
	case ".py", ".pyi":
		script = s.checkPython
	case ".js", ".mjs", ".cjs":
		script = s.checkNode
	case ".ts", ".mts", ".cts":
		script = s.checkNode
	case ".jsx", ".tsx":
		return nil, "JSX is not supported; build the project or run its linter", nil
	}
	if local == nil && script == nil {
		return nil, "", nil
	}
	if len(text) > maxChecked {
		return nil, fmt.Sprintf("the file exceeds %d bytes", maxChecked), nil
	}
	if local != nil {
		found, skipped = local(path.Base(w.abs), text)
		return found, skipped, nil
	}
	return script(ctx, path.Base(w.abs), text)
}

// commented reports whether a .json file is one of those in which tools allow
// comments and trailing commas.
func commented(abs string) bool {
	base, dir := path.Base(abs), path.Base(path.Dir(abs))
	return strings.HasPrefix(base, "tsconfig") || strings.HasPrefix(base, "jsconfig") ||
		base == "devcontainer.json" || base == "language-configuration.json" || strings.HasPrefix(base, ".eslintrc") ||
		dir == ".vscode" || dir == ".devcontainer"
}

func checkGo(name, text string) (*problem, string) {
	if deep(text) {
		return nil, "the file is nested too deeply"
	}
	_, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	var list scanner.ErrorList
	if errors.As(err, &list) && len(list) > 0 {
		return &problem{list[0].Pos.Line, list[0].Pos.Column, list[0].Msg}, ""
	}
	if err != nil {
		return &problem{text: err.Error()}, ""
	}
	return nil, ""
}

// deep reports whether a Go source nests beyond what a recursive parser should see.
// It counts tokens that can open a level, and chains of operators and keywords,
// before any parser does.
func deep(text string) bool {
	fset := token.NewFileSet()
	src := []byte(text)
	var sc scanner.Scanner
	sc.Init(fset.AddFile("", fset.Base(), len(src)), src, func(token.Position, string) {}, 0)
	depth, chain := 0, 0
	for {
		_, tok, _ := sc.Scan()
		switch tok {
		case token.EOF:
			return false
		case token.LPAREN, token.LBRACK, token.LBRACE:
			depth++
			chain++
		case token.RPAREN, token.RBRACK, token.RBRACE:
			depth = max(depth-1, 0)
			chain++
		case token.SEMICOLON, token.COMMA, token.COLON:
			chain = 0
		case token.STRING, token.IDENT, token.INT, token.ADD, token.LAND, token.LOR, token.PERIOD:
			// Long sums and selections are parsed in a loop.
		default:
			chain++
		}
		if depth > maxDepth || chain > 10*maxDepth {
			return true
		}
	}
}

func checkJSON(_, text string) (*problem, string) {
	dec := json.NewDecoder(strings.NewReader(text))
	var v json.RawMessage
	err := dec.Decode(&v)
	at := dec.InputOffset()
	if err == nil {
		if _, err = dec.Token(); err == io.EOF {
			return nil, ""
		} else if err == nil {
			err = errors.New("text after the first value")
		}
		at += int64(len(text[at:])-len(strings.TrimLeft(text[at:], " \t\r\n"))) + 1
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax) && syntax.Offset > 0:
		at = max(at, syntax.Offset)
	case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
		at, err = int64(len(text)), errors.New("unexpected end of file")
	}
	upTo := text[:min(max(at-1, 0), int64(len(text)))]
	line := strings.Count(upTo, "\n") + 1
	return &problem{line, len(upTo) - strings.LastIndexByte(upTo, '\n'), err.Error()}, ""
}

var yamlLine = lazyregexp.New(`^yaml: (?:line (\d+): )?(.*)`)

func checkYAML(_, text string) (found *problem, skipped string) {
	defer func() {
		// The parser reports with panics; one that it does not catch says nothing
		// about the file.
		if recover() != nil {
			found, skipped = nil, "the parser failed"
		}
	}()
	if strings.Contains(text, "{{") && strings.Contains(text, "}}") {
		return nil, "the file looks like a template"
	}
	dec := yaml.NewDecoder(strings.NewReader(text))
	for range 10_000 {
		var n yaml.Node // which does not follow aliases
		err := dec.Decode(&n)
		if err == io.EOF {
			return nil, ""
		}
		if err != nil {
			p := &problem{text: err.Error()}
			if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
				p.line, _ = strconv.Atoi(m[1])
				p.text = m[2]
			}
			return p, ""
		}
	}
	return nil, "the file has too many documents"
}

// problem is a syntax error.
type problem struct {
	line, column int // from 1; 0 when unknown
	text         string
}

func (p *problem) String() string {
	text := clip(visible(p.text), 200)
	switch {
	case p.line <= 0:
		return text
	case p.column <= 0:
		return fmt.Sprintf("line %d: %s", p.line, text)
	}
	return fmt.Sprintf("line %d, column %d: %s", p.line, p.column, text)
}

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

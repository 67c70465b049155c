package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
)

const outlineAbout = `List the functions, classes and types of a source file with line numbers.`

// maxSymbols bounds an outline.
const maxSymbols = 400

// symbol is one thing that a file declares.
type symbol struct {
	line, depth int
	text        string
}

func (s *Set) outline() *tool {
	return &tool{name: "outline", about: outlineAbout, run: s.runOutline, input: fields{
		{name: "path", kind: "string", need: true, doc: "Source file."},
	}}
}

func (s *Set) runOutline(ctx context.Context, in args) (loop.Result, error) {
	w, err := s.where(in.str("path"))
	if err != nil {
		return loop.Result{}, err
	}
	b, err := s.cfg.Sandbox.ReadFile(ctx, w.abs, maxFile)
	if err != nil {
		return loop.Result{}, err
	}
	d, why := parseDocument(b)
	if why != "" {
		return loop.Result{}, teach("%s is %s; it has no outline", w.say, why)
	}
	var all []symbol
	note := ""
	switch path.Ext(w.abs) {
	case ".go":
		all, note = outlineGo(d.text)
	case ".py", ".pyi":
		all, note, err = s.outlinePython(ctx, d.text)
	case ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx":
		all = outlineJS(d.text)
	default:
		return loop.Result{}, api.Errorf(api.KindUnsupported, "outline does not support %s. Supported: Go, Python, JavaScript and TypeScript. Use search for other files", w.say)
	}
	if err != nil {
		return loop.Result{}, err
	}
	var text strings.Builder
	for i, y := range all {
		if i == maxSymbols || text.Len() > maxText {
			fmt.Fprintf(&text, "[%d of %d symbols shown; use search for the others]\n", i, len(all))
			break
		}
		fmt.Fprintf(&text, "%d\t%s%s\n", y.line, strings.Repeat("  ", min(y.depth, 20)), clip(visible(y.text), 160))
	}
	if len(all) == 0 {
		text.WriteString("The file declares no functions, classes or types.\n")
	}
	text.WriteString(note)
	return loop.Result{Text: strings.TrimSuffix(text.String(), "\n"), Short: fmt.Sprintf("outline %s, %d symbols", w.say, len(all))}, nil
}

func outlineGo(text string) (all []symbol, note string) {
	if len(text) > maxChecked || deep(text) {
		return nil, "[the file is too long or nested too deeply to parse]"
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", text, parser.SkipObjectResolution)
	if err != nil {
		note = "[the file has a syntax error; symbols may be missing]"
	}
	if f == nil {
		return nil, note
	}
	add := func(pos token.Pos, depth int, text string) {
		all = append(all, symbol{fset.Position(pos).Line, depth, text})
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := "func " + d.Name.Name
			if d.Recv != nil && len(d.Recv.List) > 0 {
				name = fmt.Sprintf("func (%s) %s", receiver(d.Recv.List[0].Type), d.Name.Name)
			}
			add(d.Pos(), 0, name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Pos(), 0, "type "+spec.Name.Name+typeWord(spec.Type))
					if i, ok := spec.Type.(*ast.InterfaceType); ok {
						for _, m := range i.Methods.List {
							for _, n := range m.Names {
								add(n.Pos(), 1, n.Name)
							}
						}
					}
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						add(n.Pos(), 0, d.Tok.String()+" "+n.Name)
					}
				}
			}
		}
	}
	return all, note
}

func typeWord(e ast.Expr) string {
	switch e.(type) {
	case *ast.StructType:
		return " struct"
	case *ast.InterfaceType:
		return " interface"
	}
	return ""
}

func receiver(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			if id, ok := x.X.(*ast.Ident); ok {
				return "*" + id.Name
			}
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return "?"
		}
	}
}

const pythonOutline = `
import sys
try:
    import ast, json, os, warnings
    warnings.simplefilter("ignore")
    tree = ast.parse(os.fsencode("".join(sys.argv[1:])))
    out = []
    def walk(body, depth):
        for n in body:
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names = [a.arg for a in n.args.posonlyargs + n.args.args]
                if n.args.vararg: names.append("*" + n.args.vararg.arg)
                names += [a.arg for a in n.args.kwonlyargs]
                if n.args.kwarg: names.append("**" + n.args.kwarg.arg)
                word = "async def " if isinstance(n, ast.AsyncFunctionDef) else "def "
                out.append([n.lineno, depth, word + n.name + "(" + ", ".join(names) + ")"])
                walk(n.body, depth + 1)
            elif isinstance(n, ast.ClassDef):
                out.append([n.lineno, depth, "class " + n.name])
                walk(n.body, depth + 1)
            elif isinstance(n, (ast.If, ast.Try)):
                walk(n.body, depth)
                walk(n.orelse, depth)
            elif depth == 0 and isinstance(n, ast.Assign):
                out.extend([n.lineno, depth, t.id + " ="] for t in n.targets if isinstance(t, ast.Name))
            elif depth == 0 and isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name):
                out.append([n.lineno, depth, n.target.id + " ="])
    walk(tree.body, 0)
    print(json.dumps(out[:5000]))
except BaseException:
    sys.exit(3)
`

// outlinePython asks Python in the sandbox, and reads lines if there is none or
// the file is broken.
func (s *Set) outlinePython(ctx context.Context, text string) ([]symbol, string, error) {
	if len(text) <= maxChecked {
		res, err := s.program(ctx, "", append([]string{"sh", "-c", `command -v python3 >/dev/null || exit 127; exec "$@"`, "sh", "python3", "-I", "-S", "-c", pythonOutline}, pieces(text)...)...)
		if err != nil {
			return nil, "", err
		}
		if all, ok := symbolsOf(res.out); ok && res.exit.Code == 0 {
			return all, "", nil
		}
	}
	return outlineLines(text), "[the file could not be parsed and was read line by line; symbols may be missing]", nil
}

// symbolsOf reads what the sandbox said.
func symbolsOf(b []byte) ([]symbol, bool) {
	var raw [][]any
	if json.Unmarshal(b, &raw) != nil {
		return nil, false
	}
	var all []symbol
	for _, r := range raw {
		if len(r) != 3 {
			return nil, false
		}
		line, _ := r[0].(float64)
		depth, _ := r[1].(float64)
		text, _ := r[2].(string)
		all = append(all, symbol{clampLine(line), clampLine(depth), text})
	}
	return all, true
}

// outlineLines finds Python's declarations by their first words.
func outlineLines(text string) (all []symbol) {
	var indents []int
	for i, l := range lines(text) {
		rest := strings.TrimLeft(l, " \t")
		word := strings.TrimPrefix(rest, "async ")
		if !strings.HasPrefix(word, "def ") && !strings.HasPrefix(word, "class ") {
			continue
		}
		indent := len(l) - len(rest)
		for len(indents) > 0 && indents[len(indents)-1] >= indent {
			indents = indents[:len(indents)-1]
		}
		all = append(all, symbol{i + 1, len(indents), strings.TrimRight(clip(rest, 160), " :\r")})
		indents = append(indents, indent)
	}
	return all
}

package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/repomap"
	"hortus.dev/internal/platform/lazyregexp"
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

// What declares something at the beginning of a line, in JavaScript and
// TypeScript. RE2 takes linear time.
var (
	jsDeclares = lazyregexp.New(`^\s*(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(function\s*\*?\s*[\w$]*|class(?:\s+[\w$]+)?|interface\s+[\w$]+|(?:const\s+)?enum\s+[\w$]+|namespace\s+[\w$.]+|type\s+[\w$]+(?:<[^=]*>)?\s*=)`)
	jsAssigns  = lazyregexp.New(`^\s*(?:export\s+)?(?:const|let|var)\s+([\w$]+)\s*(?::[^=]+)?=\s*(?:async\s*)?(?:function\b|class\b|\([^()]*\)\s*(?::[^=]+)?=>|[\w$]+\s*=>)`)
	jsMethod   = lazyregexp.New(`^\s*(?:(?:public|private|protected|static|readonly|override|abstract|async|get|set)\s+)*\*?\s*(#?[\w$]+)\s*(?:<[^<>()]*>)?\([^;]*$`)
)

// jsWords look like methods and are not.
var jsWords = map[string]bool{"if": true, "for": true, "while": true, "switch": true, "catch": true, "return": true,
	"function": true, "with": true, "await": true, "new": true, "throw": true, "typeof": true, "super": true, "do": true, "else": true}

// outlineJS finds declarations by line, and their nesting by braces. It is no
// parser: a regular expression that holds a quote can mislead it, for the rest of
// that line only.
func outlineJS(text string) (all []symbol) {
	depth, inComment, inTemplate := 0, false, false
	// classes are the depths of the bodies of classes that are open.
	var open []int // the depth in which each symbol that is open was declared
	var classes []bool
	for i, l := range lines(text) {
		l = clipExact(l, maxShownLine)
		for len(open) > 0 && depth <= open[len(open)-1] {
			open, classes = open[:len(open)-1], classes[:len(classes)-1]
		}
		if !inComment && !inTemplate {
			if name, class := jsSymbol(l, len(open) > 0 && classes[len(classes)-1] && depth == open[len(open)-1]+1); name != "" {
				all = append(all, symbol{i + 1, len(open), name})
				open, classes = append(open, depth), append(classes, class)
			}
		}
		before := depth
		depth, inComment, inTemplate = jsBraces(l, depth, inComment, inTemplate)
		// What opened no brace on its line, and is not waiting for one, is over.
		if len(open) > 0 && open[len(open)-1] == before && depth <= before && !strings.HasSuffix(strings.TrimSpace(l), "(") && !strings.HasSuffix(strings.TrimSpace(l), ",") {
			open, classes = open[:len(open)-1], classes[:len(classes)-1]
		}
	}
	return all
}

// jsSymbol names what a line declares.
func jsSymbol(l string, inClass bool) (name string, class bool) {
	if m := jsDeclares.FindStringSubmatch(l); m != nil {
		name = strings.TrimRight(strings.Join(strings.Fields(m[1]), " "), " =")
		return name, strings.HasPrefix(name, "class") || strings.HasPrefix(name, "interface")
	}
	if m := jsAssigns.FindStringSubmatch(l); m != nil {
		return m[1], false
	}
	if inClass {
		if m := jsMethod.FindStringSubmatch(l); m != nil && !jsWords[m[1]] {
			return m[1] + "()", false
		}
	}
	return "", false
}

// jsBraces counts the braces of one line that stand in no string and no comment.
func jsBraces(l string, depth int, comment, template bool) (int, bool, bool) {
	var quote byte
	for i := 0; i < len(l); i++ {
		b := l[i]
		switch {
		case comment:
			if b == '*' && i+1 < len(l) && l[i+1] == '/' {
				comment = false
				i++
			}
		case template:
			if b == '\\' {
				i++
			} else if b == '`' {
				template = false
			}
		case quote != 0:
			if b == '\\' {
				i++
			} else if b == quote {
				quote = 0
			}
		case b == '/' && i+1 < len(l) && l[i+1] == '/':
			return depth, false, false
		case b == '/' && i+1 < len(l) && l[i+1] == '*':
			comment = true
			i++
		case b == '"' || b == '\'':
			quote = b
		case b == '`':
			template = true
		case b == '{':
			depth++
		case b == '}':
			depth = max(depth-1, 0)
		}
	}
	return depth, comment, template
}

const mapAbout = `List source files with their top-level functions, classes and types.`

// mapLines is how many lines a map is made of, mapBytes how many bytes of them are read.
const (
	mapLines = 40_000
	mapBytes = 3_900_000
	mapText  = 12_000 // of a map, in bytes
)

// mapScript finds the lines that a map is made of: those that may declare or import something. Only they leave the sandbox.
func mapScript() string {
	var specs, names []string
	for _, end := range repomap.Ends() {
		specs = append(specs, "'*"+end+"'")
		names = append(names, "-name '*"+end+"'")
	}
	return enter + `[ -z "$only" ] || exit 6
cut() { command cut -b 1-400 | head -n ` + strconv.Itoa(mapLines) + ` | head -c ` + strconv.Itoa(mapBytes) + `; }
if repo; then git grep -nIzE --no-color --untracked -e "$2" -- ` + strings.Join(specs, " ") + ` | cut
else find . \( -name .git -o -name node_modules \) -prune -o -type f \( ` + strings.Join(names, " -o ") + ` \) -print0 | sort -z | xargs -0 grep -nIHZE -e "$2" -- | cut; fi`
}

func (s *Set) mapping() *tool {
	return &tool{name: "map", about: mapAbout, run: s.runMap, input: fields{
		{name: "path", kind: "string", doc: "Where to look."},
	}}
}

func (s *Set) runMap(ctx context.Context, in args) (loop.Result, error) {
	w, err := s.place(orElse(in.str("path"), "."))
	if err != nil {
		return loop.Result{}, err
	}
	res, err := s.script(ctx, "", mapScript(), w.arg, repomap.Candidates)
	if err != nil {
		return loop.Result{}, err
	}
	if bad := s.lookFailed("map", w, res); bad != nil {
		return *bad, nil
	}
	var lines []repomap.Line
	eachMatch(res.out, func(name, number, line string) {
		n, err := strconv.Atoi(number)
		if err != nil {
			return // 12 digits at most
		}
		lines = append(lines, repomap.Line{Path: joinSay(w.say, name), N: n, Text: line})
	})
	text := repomap.Text(lines, mapText)
	if len(lines) >= mapLines || len(res.out) >= mapBytes {
		text += "\n[the repository is too large for one map: files at the end of the list are missing; set path to a directory]"
	}
	return loop.Result{Text: text, Short: fmt.Sprintf("map of %s", w.say)}, nil
}

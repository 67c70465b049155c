package tool

import (
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

package document

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Command is one command of a document.
type Command struct {
	// Line is the number of its first line, from 1.
	Line int
	// Text is the command without its prompt and indentation.
	Text string
	// Prompt is true if the command had a prompt. Prints is then its whole output, in which
	// "..." matches any text.
	Prompt bool
	Prints []string
}

// programs lists the first words of commands without a prompt.
var programs = []string{
	"bash", "bin/hortus", "curl", "docker", "dpkg", "echo", "export", "git", "go", "hortus", "install", "make", "mkdir",
	"sh", "ssh", "sudo", "systemctl", "systemd-run", "tar",
}

// assignments matches variable assignments before a program.
var assignments = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*=(\$\(|"[^"]*"\s*|'[^']*'\s*|[^\s$(]*\s*))*`)

// Commands returns the commands in the indented blocks of a document.
func Commands(text string) (all []Command) {
	lines := strings.Split(text, "\n")
	prompt := false // whether the block's commands have prompts
	for i := 0; i < len(lines); i++ {
		line, indented := strings.CutPrefix(lines[i], "    ")
		if !indented && strings.TrimSpace(lines[i]) != "" {
			prompt = false
			continue
		}
		line = strings.TrimSpace(line)
		c := Command{Line: i + 1}
		indent := lines[i][:len(lines[i])-len(strings.TrimLeft(lines[i], " "))]
		if c.Text, c.Prompt = strings.CutPrefix(line, "$ "); !c.Prompt && (prompt || !begins(line)) {
			if prompt {
				last := &all[len(all)-1]
				last.Prints = append(last.Prints, line)
			}
			continue
		}
		for !complete(c.Text) && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ") {
			i++
			c.Text += "\n" + strings.TrimPrefix(lines[i], indent)
		}
		prompt = c.Prompt
		all = append(all, c)
	}
	for i := range all {
		p := &all[i].Prints
		for len(*p) > 0 && (*p)[len(*p)-1] == "" {
			*p = (*p)[:len(*p)-1]
		}
	}
	return all
}

// begins reports whether a line without a prompt is a command.
func begins(line string) bool {
	rest := line[len(assignments.FindString(line)):]
	word, _, _ := strings.Cut(rest, " ")
	return slices.Contains(programs, strings.TrimRight(word, ";"))
}

// complete reports whether a shell would run the text without reading another line.
func complete(text string) bool {
	_, err := syntax.NewParser().Parse(strings.NewReader(text+"\n"), "")
	return err == nil || !syntax.IsIncomplete(err)
}

var span = regexp.MustCompile("`(hortus [^`]+)`")

// Spans returns the commands of hortus between backticks in the text.
func Spans(text string) (all []Command) {
	for i, line := range strings.Split(text, "\n") {
		for _, m := range span.FindAllStringSubmatch(line, -1) {
			all = append(all, Command{Line: i + 1, Text: m[1]})
		}
	}
	return all
}

// Calls returns the programs that a command starts, each with its arguments. Words are not
// expanded.
func Calls(text string) (calls [][]string, err error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, err
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		var words []string
		for _, w := range call.Args {
			word, werr := literal(w)
			err = errors.Join(err, werr)
			words = append(words, word)
		}
		calls = append(calls, words)
		return true
	})
	return calls, err
}

// literal returns a word without its quotes.
func literal(w *syntax.Word) (string, error) {
	var b strings.Builder
	var add func(parts []syntax.WordPart) error
	add = func(parts []syntax.WordPart) error {
		for _, part := range parts {
			switch p := part.(type) {
			case *syntax.Lit:
				b.WriteString(p.Value)
			case *syntax.SglQuoted:
				b.WriteString(p.Value)
			case *syntax.DblQuoted:
				if err := add(p.Parts); err != nil {
					return err
				}
			default:
				if err := syntax.NewPrinter().Print(&b, part); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := add(w.Parts)
	return b.String(), err
}

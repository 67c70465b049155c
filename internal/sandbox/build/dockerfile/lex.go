package dockerfile

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
)

// instruction is one instruction with its line.
type instruction struct {
	name, rest string
	line       int
	here       []here
}

// here is a here-document of an instruction.
type here struct {
	word, name string // as it is written, and without << and quotes
	// raw has the lines as they are written, with the last one; text what they say.
	raw, text string
	quoted    bool // variables in the text are not replaced
}

func (i instruction) text() string {
	return strings.ToValidUTF8(i.name+" "+strings.Join(strings.Fields(i.rest), " "), "\uFFFD")
}

// errorf is an error about an instruction.
func (i instruction) errorf(kind api.Kind, format string, args ...any) *api.Error {
	return api.Errorf(kind, "Dockerfile line %d: %s: %s", i.line, i.name, fmt.Sprintf(format, args...))
}

// split returns the instructions of a Dockerfile, with continued lines joined.
func split(text string) (out []instruction, err error) {
	switch {
	case len(text) > MaxBytes:
		return nil, api.Errorf(api.KindInvalid, "the Dockerfile has %d bytes; the maximum is %d", len(text), MaxBytes)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return nil, api.Errorf(api.KindInvalid, "the Dockerfile is not UTF-8 text")
	}
	n, begun := 0, 0
	joined := ""
	lines := slices.Collect(strings.Lines(strings.TrimPrefix(text, "\ufeff")))
	for n < len(lines) {
		line := strings.TrimRight(lines[n], "\r\n")
		n++
		trimmed := strings.TrimSpace(line)
		if key, value, ok := strings.Cut(strings.TrimPrefix(trimmed, "#"), "="); ok && trimmed[0] == '#' && len(out) == 0 && begun == 0 &&
			strings.EqualFold(strings.TrimSpace(key), "escape") && strings.TrimSpace(value) != `\` {
			return nil, api.Errorf(api.KindUnsupported, "Dockerfile line %d: another escape character than \\ is not supported", n)
		}
		if trimmed == "" || trimmed[0] == '#' {
			continue // also between continued lines
		}
		if begun == 0 {
			begun, line = n, strings.TrimLeft(line, " \t")
		}
		if body := strings.TrimRight(line, " \t"); strings.HasSuffix(body, `\`) {
			joined += body[:len(body)-1]
			continue
		}
		joined += line
		name, rest, _ := strings.Cut(joined, " ")
		if at := strings.IndexAny(joined, " \t"); at >= 0 {
			name, rest = joined[:at], joined[at+1:]
		}
		i := instruction{name: strings.ToUpper(name), rest: strings.TrimSpace(rest), line: begun}
		if i.name == "RUN" || i.name == "COPY" || i.name == "ADD" {
			var took int
			if i.here, took, err = documents(i, lines[n:]); err != nil {
				return nil, err
			}
			n += took
		}
		out = append(out, i)
		joined, begun = "", 0
	}
	if begun != 0 {
		return nil, api.Errorf(api.KindInvalid, "Dockerfile line %d: the last line ends with \\", begun)
	}
	return out, nil
}

// document is the word that begins a here-document.
var document = regexp.MustCompile(`^<<(-?)(["']?)([A-Za-z_][A-Za-z0-9_.]*)(["']?)$`)

// documents reads the here-documents of an instruction from the lines that follow it, and returns how many lines they are.
func documents(i instruction, lines []string) (out []here, n int, err error) {
	list, err := words(i, i.rest)
	if err != nil || strings.HasPrefix(i.rest, "[") {
		return nil, 0, nil // the shell reads it
	}
	for _, w := range list {
		m := document.FindStringSubmatch(w)
		if m == nil || m[2] != m[4] {
			continue
		}
		h := here{word: w, name: m[3], quoted: m[2] != ""}
		var body []string
		for ended := false; !ended; n++ {
			if n == len(lines) {
				return nil, 0, i.errorf(api.KindInvalid, "the here-document %s has no line %s at its end", w, h.name)
			}
			line := strings.TrimRight(lines[n], "\r\n")
			if m[1] == "-" {
				line = strings.TrimLeft(line, "\t")
			}
			ended = line == h.name
			body = append(body, line+"\n")
		}
		h.raw, h.text = strings.Join(body, ""), strings.Join(body[:len(body)-1], "")
		out = append(out, h)
	}
	return out, n, nil
}

// script is the shell command of a RUN. A here-document alone is the script itself.
func script(command string, list []here) string {
	if len(list) == 1 && command == list[0].word {
		text := list[0].text
		if first, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(first, "#!") {
			// The interpreter reads a file, and not standard input, which commands of the script have.
			return fmt.Sprintf("f=$(mktemp) && cat >\"$f\" <<'%[1]s'\n%[2]s%[1]s\n%[3]s \"$f\"; c=$?; rm -f \"$f\"; exit $c", list[0].name, text, first[2:])
		}
		return text
	}
	for i, h := range list {
		if i == 0 {
			command += "\n"
		}
		command += h.raw
	}
	return command
}

// options returns the flags at the beginning of an instruction, and what follows. Flags that are not known are refused, and
// all but mount are there once.
func options(i instruction, known ...string) (map[string][]string, string, error) {
	flags := map[string][]string{}
	rest := i.rest
	for strings.HasPrefix(rest, "--") {
		word := rest
		if at := strings.IndexAny(rest, " \t"); at >= 0 {
			word = rest[:at]
		}
		rest = strings.TrimLeft(rest[len(word):], " \t")
		key, value, _ := strings.Cut(word[2:], "=")
		if !slices.Contains(known, key) || len(flags[key]) > 0 && key != "mount" {
			return nil, "", i.errorf(api.KindUnsupported, "option --%.40s is not supported, or there twice", key)
		}
		flags[key] = append(flags[key], value)
	}
	return flags, rest, nil
}

// jsonList reads the JSON form of an instruction.
func jsonList(s string) ([]string, bool) {
	var list []string
	if !strings.HasPrefix(s, "[") || json.Unmarshal([]byte(s), &list) != nil || len(list) == 0 {
		return nil, false
	}
	return list, true
}

// words splits at spaces outside of quotes. Quotes and backslashes stay.
func words(i instruction, s string) (out []string, err error) {
	var quote byte
	word := -1
	for at := 0; at < len(s); at++ {
		c := s[at]
		if word < 0 && c != ' ' && c != '\t' {
			word = at
		}
		switch {
		case c == '\\' && quote != '\'':
			at++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case (c == ' ' || c == '\t') && word >= 0:
			out, word = append(out, s[word:at]), -1
		}
	}
	if quote != 0 {
		return nil, i.errorf(api.KindInvalid, "a quote is not closed")
	}
	if word >= 0 {
		out = append(out, s[word:])
	}
	return out, nil
}

// pairs returns the names and values of ENV.
func pairs(i instruction) ([]string, error) {
	list, err := words(i, i.rest)
	if err != nil {
		return nil, err
	}
	var out []string
	if !strings.Contains(list[0], "=") { // ENV NAME value
		value := strings.TrimSpace(i.rest[len(list[0]):])
		if value == "" {
			return nil, i.errorf(api.KindInvalid, "%.80s has no value", list[0])
		}
		out = []string{list[0], value}
	} else {
		for _, w := range list {
			key, value, ok := strings.Cut(w, "=")
			if !ok {
				return nil, i.errorf(api.KindInvalid, "%.80q is not NAME=VALUE", w)
			}
			out = append(out, key, value)
		}
	}
	for n := 0; n < len(out); n += 2 {
		if !name.MatchString(out[n]) {
			return nil, i.errorf(api.KindInvalid, "%.80q is not the name of a variable", out[n])
		}
	}
	return out, nil
}

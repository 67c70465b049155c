package offline

import (
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/language"
	"hortus.dev/internal/platform/lazyregexp"
)

var (
	reFence = lazyregexp.New("(?s)```[ \t]*([A-Za-z0-9.+-]*)[ \t]*\r?\n(.*?)\r?\n?```")
	reTick  = lazyregexp.New("(?s)`([^`]+)`")
	reRun   = lazyregexp.New(`(?is)^\s*(?:please\s+|can you\s+|could you\s+)?(?:run|execute|fix|debug|repair|try|test|check)(?:\s+and\s+(?:run|execute|fix|debug|repair))?\b[^:\n]{0,80}?\b(?:code|script|program|snippet|file|python3?|javascript|js|node|nodejs|node\.js|py|typescript|golang|go|rust|java|c\+\+|cpp|c|bash|ruby|php|perl|this|following|it)\b[^:\n]{0,60}?:\s*(.+)$`)
	reAsks  = lazyregexp.New(`(?i)\b(run|execute|fix|debug|repair|try|test)\b`)
	reShell = lazyregexp.New(`(?i)\b(?:bash|shell) *(?:code|script|program|snippet|command)?\s*:\s*$`)
	reLooks = lazyregexp.New(`^#!|[=();:{}\[\]"']|^\s*(?:import|print|from|def|for|while|if|echo|puts)\b`)
)

// givenProgram reads a sentence that carries its own program: in a fenced block,
// in backticks, or behind a colon.
func givenProgram(sentence string) (*api.ExecutionPlan, error) {
	around, code, tag := "", "", ""
	if m := reFence.FindStringSubmatchIndex(sentence); m != nil {
		around = sentence[:m[0]] + " " + sentence[m[1]:]
		tag, code = strings.ToLower(sentence[m[2]:m[3]]), sentence[m[4]:m[5]]
	} else if m := reTick.FindStringSubmatchIndex(sentence); m != nil && reAsks.MatchString(sentence[:m[0]]) && !reRun.MatchString(sentence[:m[0]]+"x") {
		around, code = sentence[:m[0]]+" "+sentence[m[1]:], sentence[m[2]:m[3]]
	} else if m := reRun.FindStringSubmatchIndex(sentence); m != nil {
		around, code = sentence[:m[2]], sentence[m[2]:m[3]]
		if t := reTick.FindStringSubmatch(code); t != nil && strings.TrimSpace(code) == t[0] {
			code = t[1]
		}
	} else {
		return nil, nil
	}
	if !reAsks.MatchString(around) {
		return nil, nil
	}
	// A command of the shell may be words alone; it is one where the language is named.
	if !reLooks.MatchString(code) && !reShell.MatchString(around) && tag == "" {
		return nil, nil
	}
	lang, err := languageOf(around, code, tag)
	if err != nil {
		return nil, err
	}
	p := &api.ExecutionPlan{
		Language: lang, Shell: "bash", Task: "run the program that was given", Output: api.OutputNone,
		Parameters: map[string]string{"code": strings.TrimRight(code, " \t\r\n") + "\n"},
	}
	if tag == "mjs" {
		p.Parameters["module"] = "true"
	}
	return p, nil
}

var (
	// reNamed finds languages by names that are no other words. The capture is one that
	// package language knows, or one that nothing here runs.
	reNamed = lazyregexp.New(`(?i)(?:^|[^\w.#+])(typescript|golang|rust|java|c\+\+|cpp|ruby|php|perl|bash|shell script|c#|kotlin|swift|haskell|lua|sql|scala|fortran|cobol)(?:[^\w#+]|$)`)
	// reShort finds the names that are also words or letters, where they can be nothing else.
	reShort  = lazyregexp.New(`\b(?:[Tt]h(?:is|e following)|following|in|an?|my) (Go|C|go|c)\b|\b(Go|C|go|c) (?:code|script|program|snippet|source|file)\b`)
	reScript = lazyregexp.New(`\bconsole\.|\bconst\s|\blet\s|\bfunction\b|=>|\brequire\(|\bvar\s|\bprocess\.`)
)

// shapes tell a program's language where nobody names it, the plainest first.
var shapes = []struct {
	re *lazyregexp.Regexp
	is api.Language
}{
	{lazyregexp.New(`^#!\S*(?:/|env )python`), api.Python},
	{lazyregexp.New(`^#!\S*(?:/|env )node`), api.JavaScript},
	{lazyregexp.New(`^#!\S*(?:/|env )(?:ba|da|k|z)?sh\b`), api.Bash},
	{lazyregexp.New(`^#!\S*(?:/|env )ruby`), api.Ruby},
	{lazyregexp.New(`^#!\S*(?:/|env )perl`), api.Perl},
	{lazyregexp.New(`^\s*<\?php`), api.PHP},
	{lazyregexp.New(`(?m)^\s*package main\s*(?:;|$)`), api.Go},
	{lazyregexp.New(`\bfn main\s*\(`), api.Rust},
	{lazyregexp.New(`\bstatic\s+void\s+main\s*\(`), api.Java},
	{lazyregexp.New(`#include\s*<(?:iostream|vector|string|map|algorithm|memory)>|\bstd::`), api.CPlusPlus},
	{lazyregexp.New(`(?m)^\s*#include\s*<\w+\.h>`), api.C},
	{lazyregexp.New(`(?m)^\s*use strict;`), api.Perl},
}

// languageOf returns what a given program is written in: by the tag of its fence, by what is
// said around it, or by how it looks.
func languageOf(around, code, tag string) (api.Language, error) {
	if tag != "" {
		return named(tag)
	}
	if m := reNamed.FindStringSubmatch(around); m != nil {
		return named(m[1])
	}
	if m := reShort.FindStringSubmatch(around); m != nil {
		return named(m[1] + m[2])
	}
	r := &reading{}
	r.language(around)
	switch {
	case r.problem != "":
		return "", declined(r.problem)
	case r.lang != "":
		return r.lang, nil
	}
	for _, s := range shapes {
		if s.re.MatchString(code) {
			return s.is, nil
		}
	}
	if reScript.MatchString(code) {
		return api.JavaScript, nil
	}
	return api.Python, nil
}

func named(name string) (api.Language, error) {
	if l, ok := language.Named(strings.ToLower(name)); ok {
		return l.Name, nil
	}
	return "", declined("it runs programs in " + language.Titles() + ", not in " + name)
}

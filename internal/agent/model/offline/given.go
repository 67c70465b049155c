package offline

import (
	"strings"

	"hortus.dev/api"
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

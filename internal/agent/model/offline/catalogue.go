package offline

import (
	"bytes"
	"embed"
	"encoding/json"
	"slices"
	"strings"
	"text/template"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

//go:embed catalogue
var programs embed.FS

// catalogue is the recipes with their programs.
type catalogue struct {
	recipes []recipe
	byName  map[string]*recipe
	// examples are sentences that mean the recipes, by their names.
	examples map[string]string
	source   *template.Template // "name.py", "name.js"
	tasks    *template.Template // "name"
}

// programKey is the parameter of a plan that names the recipe.
const programKey = "program"

func newCatalogue() (*catalogue, error) {
	c := &catalogue{recipes: recipes(), byName: map[string]*recipe{}, examples: readExamples()}
	c.source = template.New("").Option("missingkey=error").Funcs(template.FuncMap{
		"str": literal, "strs": literals, "has": has, "num": plainNumber, "nums": plainNumbers,
	})
	c.tasks = template.New("").Option("missingkey=error").Funcs(template.FuncMap{"short": short, "series": series, "num": plainNumber})
	for i := range c.recipes {
		rc := &c.recipes[i]
		c.byName[rc.name] = rc
		if _, err := c.tasks.New(rc.name).Parse(rc.task); err != nil {
			return nil, api.Errorf(api.KindInternal, "task of recipe %s: %w", rc.name, err)
		}
		for _, ext := range rc.extensions() {
			b, err := programs.ReadFile("catalogue/" + rc.name + ext)
			if err != nil {
				return nil, api.Errorf(api.KindInternal, "program of recipe %s: %w", rc.name, err)
			}
			if _, err := c.source.New(rc.name + ext).Parse(string(b)); err != nil {
				return nil, api.Errorf(api.KindInternal, "program of recipe %s: %w", rc.name, err)
			}
		}
	}
	return c, nil
}

func (rc *recipe) extensions() []string {
	switch rc.only {
	case api.Python:
		return []string{".py"}
	case api.JavaScript:
		return []string{".js"}
	}
	return []string{".py", ".js"}
}

// find returns the one recipe that a sentence means.
func (c *catalogue) find(r *reading) *match {
	if r.unquoted != "" && c.instructs(r.unquoted) {
		return nil
	}
	var best *match
	tie := false
	for i := range c.recipes {
		m := c.recipes[i].try(r)
		switch {
		case m == nil:
		case best == nil || m.score > best.score:
			best, tie = m, false
		case m.score == best.score:
			tie = true
		}
	}
	if tie {
		// Two readings are no reading.
		return nil
	}
	return best
}

// qualifiers are words that change what is to be done with a text or a list.
var qualifiers = vocabulary(`ignoring ignore insensitive sensitive case without except excluding including but not only by then twice times once
 backwards backward reverse reversed first last ascending descending increasing decreasing stable natural duplicates order and or each every
 starting ending longer shorter than into separated joined`)

// instructs reports whether a text without quotation marks may end with a part of the request. It may if it has a word
// of one, or an item of a list has more words than the others.
func (c *catalogue) instructs(text string) bool {
	items := strings.Split(text, ",")
	for i, item := range items {
		if len(items) > 1 && len(strings.Fields(strings.TrimPrefix(strings.TrimSpace(item), "and "))) != len(strings.Fields(items[0])) && !(i == len(items)-1 && reAndItem.MatchString(item)) {
			return true
		}
		for _, w := range reAnyWord.FindAllString(item, -1) {
			st := stem(w)
			if st != "and" && qualifiers[st] || slices.ContainsFunc(c.recipes, func(rc recipe) bool { return needs(&rc, st) }) {
				return true
			}
		}
	}
	return false
}

// reAndItem is how a list ends: "apple and cherry".
var reAndItem = lazyregexp.New(`^\s*[\pL\d]+ and [\pL\d]+\s*$`)

func (c *catalogue) render(t *template.Template, name string, params map[string]string) (string, error) {
	var buf bytes.Buffer
	if err := t.ExecuteTemplate(&buf, name, params); err != nil {
		return "", api.Errorf(api.KindInternal, "recipe %s: %w", name, err)
	}
	return buf.String(), nil
}

// literal writes a string so that Python and JavaScript both read it back.
func literal(s string) (string, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return "", err
	}
	return strings.TrimSuffix(buf.String(), "\n"), nil
}

// literals writes lines as a list of strings.
func literals(s string) (string, error) {
	var out []string
	for line := range strings.SplitSeq(s, "\n") {
		l, err := literal(line)
		if err != nil {
			return "", err
		}
		out = append(out, l)
	}
	return "[" + strings.Join(out, ", ") + "]", nil
}

// has reports whether a set holds a value.
func has(set, v string) bool { return slices.Contains(strings.Split(set, ","), v) }

// plainNumber writes a number without leading zeros, which neither language reads.
func plainNumber(s string) string {
	neg, t := "", s
	if strings.HasPrefix(s, "-") {
		neg, t = "-", s[1:]
	}
	whole, frac, dot := strings.Cut(t, ".")
	whole = trimZeros(whole)
	if dot {
		whole += "." + frac
	}
	return neg + whole
}

func plainNumbers(s string) string {
	var out []string
	for p := range strings.SplitSeq(s, ",") {
		out = append(out, plainNumber(strings.TrimSpace(p)))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// series writes the values of a set as a sentence has them: a, b and c.
func series(set string) string {
	all := strings.Split(set, ",")
	last := len(all) - 1
	if last == 0 {
		return set
	}
	return strings.Join(all[:last], ", ") + " and " + all[last]
}

// short keeps a text of the request readable in a task.
func short(s string) string {
	s = strings.ReplaceAll(s, "\n", ", ")
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "..."
	}
	return s
}

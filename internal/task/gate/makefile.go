package gate

import (
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

func makefile(t Tree) (out []candidate) {
	name, text := makeText(t)
	if name == "" {
		return nil
	}
	rules, vars := parseMakefile(text)
	for _, target := range []string{"test", "check"} {
		if _, ok := rules[target]; !ok {
			continue
		}
		d := ofTarget(rules, vars, scripts(t), target)
		is := "the target " + target + " of the " + name
		c := candidate{Command{"make " + target, is}, ownTests, is, d.says()}
		switch {
		case len(d.tests) > 0:
			c.rank = runsTests
		case d.onlyLints():
			c.rank = onlyLints
		case target == "check":
			c.rank = ownCheck
		}
		if c.runs != "" {
			c.From += " runs " + c.runs
		}
		out = append(out, c)
	}
	return out
}

// makeText reads the file that make reads.
func makeText(t Tree) (name string, text []byte) {
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} {
		if t.has(name) {
			return name, t.Read(name)
		}
	}
	return "", nil
}

// rule is what a target of a Makefile needs, and its recipe.
type rule struct {
	needs  []string
	recipe []string
}

var (
	makeVariable = lazyregexp.New(`^(?:export +)?([A-Za-z_][\w-]*)[ \t]*(?:::?|\?|\+)?=[ \t]*(.*)$`)
	makeRule     = lazyregexp.New(`^([^\t#:=][^:=]*?)[ \t]*::?(?:[ \t]+(.*)|)$`)
	makeUse      = lazyregexp.New(`\$[({]([A-Za-z_][\w-]*)[)}]`)
)

// parseMakefile reads rules and variables as far as simple Makefiles go. Of a variable, the first value counts.
func parseMakefile(text []byte) (rules map[string]rule, vars map[string]string) {
	rules, vars = map[string]rule{}, map[string]string{}
	var targets []string
	joined := strings.ReplaceAll(string(text), "\\\n", " ")
	for line := range strings.Lines(joined) {
		line = strings.TrimRight(line, "\r\n")
		if recipe, ok := strings.CutPrefix(line, "\t"); ok {
			for _, target := range targets {
				r := rules[target]
				r.recipe = append(r.recipe, strings.TrimLeft(recipe, "@-+ \t"))
				rules[target] = r
			}
			continue
		}
		if m := makeVariable.FindStringSubmatch(line); m != nil {
			if _, ok := vars[m[1]]; !ok {
				vars[m[1]] = m[2]
			}
			continue
		}
		line, recipe, _ := strings.Cut(line, ";")
		line, _, _ = strings.Cut(line, " #")
		// A variable of one target is no rule.
		if m := makeRule.FindStringSubmatch(line); m != nil && !makeVariable.MatchString(m[2]) {
			needs, _, _ := strings.Cut(m[2], "|")
			targets = strings.Fields(m[1])
			for _, target := range targets {
				r := rules[target]
				r.needs = append(r.needs, strings.Fields(needs)...)
				if recipe = strings.TrimSpace(recipe); recipe != "" {
					r.recipe = append(r.recipe, recipe)
				}
				rules[target] = r
			}
		}
	}
	return rules, vars
}

// ofTarget looks into a target, into those that it needs or calls, and into the scripts of package.json that it calls.
func ofTarget(rules map[string]rule, vars, scripts map[string]string, target string) does {
	var d does
	seen, called := map[string]bool{}, map[string]bool{} // targets and scripts
	expand := func(s string) string {
		const most = 4 << 10
		s = s[:min(len(s), most)]
		for range 3 { // values have variables too
			for _, m := range makeUse.FindAllStringSubmatch(s, -1) {
				if v, ok := vars[m[1]]; ok && len(s)+len(v) < most {
					s = strings.Replace(s, m[0], v, 1)
				}
			}
		}
		return s
	}
	var look func(target string) bool
	look = func(target string) bool {
		r, ok := rules[target]
		if !ok || seen[target] {
			return ok
		}
		seen[target] = true
		for _, n := range r.needs {
			for _, n := range strings.Fields(expand(n)) {
				look(n)
			}
		}
		for _, line := range r.recipe {
			for _, c := range commandsOf(expand(line)) {
				d.classify(c, func(name string) bool {
					if _, ok := scripts[name]; !ok {
						return false
					}
					if !called[name] {
						called[name] = true
						d.join(ofScript(scripts, name))
					}
					return true
				}, look)
			}
		}
		return true
	}
	look(target)
	return d
}

package offline

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// mutators break a program in one place, as people and models do. Each gives the
// k-th way to break it, or "" when there are fewer.
var mutators = []struct {
	name string
	lang api.Language // "" is both
	f    func(src string, k int) string
}{
	{"drop import", api.Python, dropLine(regexp.MustCompile(`^(import|from) `))},
	{"drop import", api.JavaScript, dropLine(regexp.MustCompile(`require\(`))},
	{"drop colon", api.Python, editLine(regexp.MustCompile(`^\s*(def|for|while|if|else|class|with)\b.*:$`), func(l string) string { return l[:len(l)-1] })},
	{"drop closing paren", "", editLine(regexp.MustCompile(`\)\s*[;:{]?\s*\{?$`), func(l string) string {
		i := strings.LastIndexByte(l, ')')
		return l[:i] + l[i+1:]
	})},
	{"misspell a use", "", misspell},
	{"python 2 print", api.Python, editLine(regexp.MustCompile(`^\s*print\([^()]*\)$`), func(l string) string {
		return strings.TrimSuffix(strings.Replace(l, "print(", "print ", 1), ")")
	})},
	{"wrong indentation", api.Python, editLine(regexp.MustCompile(`^    +\S`), func(l string) string { return l[2:] })},
	{"no indentation", api.Python, editLine(regexp.MustCompile(`^    \S`), func(l string) string { return l[4:] })},
	{"drop brace", api.JavaScript, dropLine(regexp.MustCompile(`^\s*\}$`))},
	{"drop quote", "", editLine(regexp.MustCompile(`"\)?;?$`), func(l string) string {
		i := strings.LastIndexByte(l, '"')
		return l[:i] + l[i+1:]
	})},
}

func dropLine(re *regexp.Regexp) func(string, int) string {
	return func(src string, k int) string {
		lines := strings.Split(src, "\n")
		for i, l := range lines {
			if re.MatchString(l) {
				if k == 0 {
					return strings.Join(append(lines[:i:i], lines[i+1:]...), "\n")
				}
				k--
			}
		}
		return ""
	}
}

func editLine(re *regexp.Regexp, edit func(string) string) func(string, int) string {
	return func(src string, k int) string {
		lines := strings.Split(src, "\n")
		for i, l := range lines {
			if re.MatchString(l) {
				if k == 0 {
					lines[i] = edit(l)
					return strings.Join(lines, "\n")
				}
				k--
			}
		}
		return ""
	}
}

var reLongName = regexp.MustCompile(`\b[a-z][A-Za-z_]{4,}\b`)

// misspell swaps two letters in the last use of the k-th long name.
func misspell(src string, k int) string {
	seen := map[string]bool{}
	for _, id := range reLongName.FindAllString(src, -1) {
		if seen[id] || strings.Count(src, id) < 2 || id == "import" || id == "return" || id == "class" || id == "const" || id == "function" {
			continue
		}
		if seen[id] = true; k > 0 {
			k--
			continue
		}
		all := regexp.MustCompile(`\b`+id+`\b`).FindAllStringIndex(src, -1)
		at := all[len(all)-1][0]
		return src[:at+2] + string(src[at+3]) + string(src[at+2]) + src[at+4:]
	}
	return ""
}

// TestMutations measures how many seeded defects are repaired within three
// attempts. It counts only programs that really fail, and a repair only when the
// output is that of the program before it was broken. It takes every tenth
// program of the table; HORTUS_MUTATIONS=all takes all.
func TestMutations(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	needInterpreter(t, api.Python)
	needInterpreter(t, api.JavaScript)
	type tally struct{ broken, repaired int }
	byName := map[string]*tally{}
	total := tally{}
	var missed []string
	stride, least := tier.Count(80, 10), tier.Count(5, 50)
	if os.Getenv("HORTUS_MUTATIONS") == "all" {
		stride = 1
	}
	for i, c := range matching {
		if c.program == "" || c.output == "" || i%stride != 0 {
			continue
		}
		for _, lang := range []api.Language{api.Python, api.JavaScript} {
			plan, err := m.plan(c.sentence)
			if err != nil {
				t.Fatal(err)
			}
			plan.Language = lang
			good, err := m.code(*plan)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			for _, mut := range mutators {
				if mut.lang != "" && mut.lang != lang {
					continue
				}
				for k := range 2 {
					src := mut.f(good.Files[0].Content, k)
					if src == "" || src == good.Files[0].Content {
						break
					}
					if want == "" {
						want = runLocal(t, *good, 10*time.Second).Stdout
					}
					bad := *good
					bad.Files = []api.File{{Path: good.Files[0].Path, Content: src}}
					if runLocal(t, bad, 5*time.Second).OK {
						continue // it still runs: no defect that anybody could see
					}
					res, diagnoses, _ := repairProgram(t, m, *plan, bad, 5*time.Second)
					key := string(lang) + " " + mut.name
					if byName[key] == nil {
						byName[key] = &tally{}
					}
					byName[key].broken++
					total.broken++
					if res.OK && res.Stdout == want {
						byName[key].repaired++
						total.repaired++
					} else {
						missed = append(missed, fmt.Sprintf("%s: %s %d: %q\n%s", key, c.program, k, diagnoses, res.Stderr))
					}
				}
			}
		}
	}
	for key, n := range byName {
		t.Logf("%-32s %d of %d", key, n.repaired, n.broken)
	}
	t.Logf("repaired %d of %d (%.0f %%)", total.repaired, total.broken, 100*float64(total.repaired)/float64(max(total.broken, 1)))
	if testing.Verbose() {
		for _, s := range missed {
			t.Log("missed: " + s)
		}
	}
	if total.broken < least || total.repaired*100 < total.broken*80 {
		t.Errorf("repaired %d of %d; want at least 80 %%", total.repaired, total.broken)
	}
}

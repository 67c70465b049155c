package artifact

import (
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

var (
	asksRandom = lazyregexp.New(`(?i)\b(random|randomly|shuffled?|dice|lottery|uuid|guid|password|passphrase|token|secret|api key|nonce|salt)\b`)
	asksSecret = lazyregexp.New(`(?i)\b(password|passphrase|token|secret|api key|nonce|salt)s?\b`)
	asksSeed   = lazyregexp.New(`(?i)\b(seed(ed)?|reproducibl[ey]|deterministic|repeatable|the same each time)\b`)
	// fixedSeed is a generator that begins with a number of the program's own.
	fixedSeed = lazyregexp.New(`random\.seed\(\s*["'\d]|\bRandom\(\s*\d|default_rng\(\s*\d|\bsrand\(\s*\d|mt_srand\(\s*\d|NewSource\(\s*\d|NewPCG\(\s*\d|seed_from_u64\(\s*\d|mt19937\w*\s*\w*[({]\s*\d|seedrandom\(\s*["'\d]|\bRANDOM=\d|Random\.new\(\s*\d`)
	// guessable are generators whose next number follows from the last ones.
	guessable = lazyregexp.New(`\brandom\.(random|randint|choice|choices|sample|randrange)\(|\bMath\.random\(|"math/rand(/v2)?"|\bjava\.util\.Random\b|\bnew Random\(|\brand\(|\$RANDOM\b`)
)

// Cautions finds what a person should look at in a program that does what was planned: a
// program can print a fixed "random" number, and nothing that runs it once would notice.
// They decide nothing. There are at most a few.
func Cautions(plan api.ExecutionPlan, a api.CodeArtifact) (found []api.Caution) {
	asked := plan.Task
	for name, v := range plan.Parameters {
		if name != "code" { // a program that was given
			asked += " " + v
		}
	}
	if !asksRandom.MatchString(asked) {
		return nil
	}
	look := func(re *lazyregexp.Regexp, uses string) {
		for _, f := range a.Files {
			for i, line := range strings.Split(f.Content, "\n") {
				if re.MatchString(line) {
					found = append(found, api.Caution{Path: f.Path, Line: i + 1, Uses: uses})
					return
				}
			}
		}
	}
	if !asksSeed.MatchString(asked) {
		look(fixedSeed, "a fixed seed: the random numbers are the same in every run")
	}
	if asksSecret.MatchString(asked) {
		look(guessable, "predictable random numbers used for a secret")
	}
	return found
}

package artifact_test

import (
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/artifact"
)

func TestCautions(t *testing.T) {
	const seeded, guessed = "the same in every run", "predictable"
	for _, c := range []struct {
		task, src string
		want      []string
	}{
		{"print a random number", "import random\nrandom.seed(42)\nprint(random.randint(1, 6))", []string{seeded}},
		{"print a random number", "import random\nprint(random.Random(7).random())", []string{seeded}},
		{"roll dice", "package main\nr := rand.New(rand.NewSource(1))", []string{seeded}},
		{"roll dice", "srand(1); printf(\"%d\", rand());", []string{seeded}},
		{"shuffle a list", "let mut r = StdRng::seed_from_u64(1);", []string{seeded}},
		{"print a random number", "import random\nprint(random.randint(1, 6))", nil},
		{"print a random number with the seed 42", "import random\nrandom.seed(42)", nil},
		{"print reproducible random numbers", "import random\nrandom.seed(42)", nil},
		{"print the first primes", "import random\nrandom.seed(42)", nil},
		{"make a password", "import random\nprint(random.choice('abc'))", []string{guessed}},
		{"make a token", "console.log(Math.random())", []string{guessed}},
		{"make a password", "import random\nrandom.seed(1)\nprint(random.choice('abc'))", []string{seeded, guessed}},
		{"make a password", "import secrets\nprint(secrets.choice('abc'))", nil},
	} {
		got := artifact.Cautions(api.ExecutionPlan{Task: c.task}, api.CodeArtifact{Files: []api.File{{Path: "main", Content: c.src}}})
		ok := len(got) == len(c.want)
		for i := range c.want {
			ok = ok && strings.Contains(got[i].Uses, c.want[i]) && got[i].Line > 0
		}
		if !ok {
			t.Errorf("%q with %q: %+v, want %q", c.task, c.src, got, c.want)
		}
	}
	given := api.ExecutionPlan{Task: "run the program that was given", Parameters: map[string]string{"code": "random.seed(1)"}}
	if got := artifact.Cautions(given, api.CodeArtifact{Files: []api.File{{Content: "random.seed(1)"}}}); got != nil {
		t.Errorf("a given program: %+v", got)
	}
}

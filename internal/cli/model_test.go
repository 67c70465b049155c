package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
)

func TestModelCatalogue(t *testing.T) {
	list := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		env := app.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" },
			Catalogue: func() ([]api.CatalogueEntry, error) {
				return []api.CatalogueEntry{
					{Name: "primes", Kind: api.CatalogueProgram, Does: "prime numbers", Example: "List all primes up to 30", Languages: []api.Language{api.Python}},
					{Name: "repair", Kind: api.CatalogueRepository, Does: "a small defect", Example: "Fix the failing test", Languages: []api.Language{api.Python, api.Go}},
				}, nil
			}}
		code = Main(t.Context(), append([]string{"model", "catalogue"}, args...), env, nil) // it needs no daemon
		return code, out.String(), errs.String()
	}
	code, out, errs := list()
	for _, want := range []string{"hortus run '...'", "List all primes up to 30", "prime numbers (python only)", "hortus task --repo . '...'", "Fix the failing test"} {
		if !strings.Contains(out, want) {
			t.Errorf("the table misses %q:\n%s", want, out)
		}
	}
	if code != 0 || !strings.Contains(errs, "2 of 2 entries") || strings.Contains(errs, `\n`) {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, out, _ := list("PRIME", "30"); code != 0 || strings.Contains(out, "repair") || strings.Contains(out, "Fix the") || !strings.Contains(out, "List all primes") {
		t.Errorf("entries with two words: exit %d\n%s", code, out)
	}
	if code, out, errs := list("poem"); code == 0 || out != "" || !strings.Contains(errs, `no entry of the catalogue contains "poem"`) {
		t.Errorf("no entry: exit %d, %q, %s", code, out, errs)
	}
	var got []api.CatalogueEntry
	code, out, _ = list("--json", "defect")
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || len(got) != 1 || got[0].Name != "repair" {
		t.Errorf("as JSON: exit %d, %v\n%s", code, err, out)
	}
	if code, _, errs := list("--host", "https://example.com"); code != 2 || !strings.Contains(errs, "works on this machine only") {
		t.Errorf("with a host: exit %d, %s", code, errs)
	}
}

package story

import (
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// TestCatalogue runs examples that the catalogue lists, of each kind that runs a program.
func TestCatalogue(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	entries := decode[[]api.CatalogueEntry](t, g.must("model", "catalogue", "--json"))
	for name, want := range map[string]string{"primes": "2, 3, 5, 7, 11, 13, 17, 19, 23, 29\n", "csv_squares": "Wrote squares.csv\n", "given_program": "42\n"} {
		i := slices.IndexFunc(entries, func(e api.CatalogueEntry) bool { return e.Name == name })
		if i < 0 {
			t.Fatalf("%s is not listed: %+v", name, entries)
		}
		if r := g.run("run", entries[i].Example); r.code != 0 || r.stdout != want || !strings.Contains(r.stderr, "verified") {
			t.Errorf("%s: %s", name, r)
		}
	}
}

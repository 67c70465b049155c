package offline

import (
	"os"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// TestSentences: each sentence of the table is answered right, with nothing but labels and the given numbers before the
// answer, or declined with what to type for another model.
func TestSentences(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	needInterpreter(t, api.Python)
	table, err := os.ReadFile("testdata/sentences.txt")
	if err != nil {
		t.Fatal(err)
	}
	words := func(s string) []string {
		return strings.FieldsFunc(s, func(c rune) bool { return strings.ContainsRune(" \n,:'{}[]\"", c) })
	}
	asked, answered := 0, 0
	for line := range strings.Lines(string(table)) {
		sentence, want, ok := strings.Cut(strings.TrimSpace(line), " =>")
		if !ok || line[0] == '#' {
			continue
		}
		asked++
		p, err := m.plan(sentence)
		if err != nil {
			if hint := api.HintOf(err); api.KindOf(err) != api.KindDeclined || !strings.Contains(hint, "--model") || !strings.Contains(err.Error(), "offline model") {
				t.Errorf("%q: %v (%s)", sentence, err, hint)
			}
			continue
		}
		answered++
		a, err := m.code(*p)
		if err != nil {
			t.Errorf("%q: %v", sentence, err)
			continue
		}
		res := runLocal(t, *a, 20*time.Second)
		if want == "" || !strings.HasSuffix(strings.Join(words(res.Stdout), " "), strings.Join(words(want), " ")) && !strings.Contains(res.Stdout, " "+strings.TrimSpace(want)+" ") {
			t.Errorf("%q: %s prints %q, want %q", sentence, p.Parameters[programKey], res.Stdout, want)
		}
	}
	t.Logf("%d of %d sentences answered", answered, asked)
	if asked < 150 || answered < 20 {
		t.Errorf("%d sentences, %d answered", asked, answered)
	}
}

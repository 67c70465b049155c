package cache

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/gittest"
)

func TestDiffAndStat(t *testing.T) {
	long := strings.Repeat("a line that stays\n", 30)
	src := gittest.NewCheckout(t, map[string]string{"a.txt": "one\ntwo\n", "gone": "x\n", "old name": long, "bin": "\x00\x01", "to-link": "x", ".gitattributes": "*.txt diff=evil\n"})
	r, base, to := change(t, src, file("a.txt", "one\n2\n3\n"), Change{Path: "gone", Delete: true}, file("new \"q\"\u00e9", long+"more\n"), Change{Path: "old name", Delete: true},
		file("bin", "\x00\x02"), link("to-link", "a.txt"), file("added", "1\n2\n"))
	stats, err := r.Stat(gittest.Context(t), base.Hash, to)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range stats {
		got = append(got, fmt.Sprintf("%c %s<%s +%d -%d %v", s.Status, s.Path, s.OldPath, s.Added, s.Deleted, s.Binary))
	}
	want := []string{"M a.txt< +2 -1 false", "A added< +2 -0 false", "M bin< +0 -0 true", "D gone< +0 -1 false", "R new \"q\"\u00e9<old name +1 -0 false", "T to-link< +1 -1 false"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	patch, err := r.Diff(gittest.Context(t), base.Hash, to, DiffOptions{Renames: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"rename from old name", "GIT binary patch", "-two\n+2\n+3\n", "index " + strings.Repeat("0", 40)} {
		if !strings.Contains(string(patch), text) {
			t.Errorf("the patch has no %q:\n%s", text, patch)
		}
	}
	_, err = r.Diff(gittest.Context(t), base.Hash, to, DiffOptions{Max: 100})
	gittest.WantKind(t, err, api.KindExhausted, "larger")
	_, err = r.Diff(gittest.Context(t), "--output="+t.TempDir()+"/x", to, DiffOptions{})
	gittest.WantKind(t, err, api.KindInvalid, "")
	if same, err := r.Stat(gittest.Context(t), to, to); err != nil || len(same) != 0 {
		t.Errorf("%v, %v", same, err)
	}
	if _, err := os.Stat(r.dir + "/hooks"); err == nil {
		t.Error("the cache has hooks")
	}
}

package document_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/task/document"
	"hortus.dev/test/gittest"
)

func newDocuments(t *testing.T, change ...func(*document.Config)) *document.Documents {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "hortus.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	cfg := document.Config{Rows: db, Source: func(_ context.Context, url string) (git.Source, error) { return git.Source{URL: url}, nil }}
	for _, c := range change {
		c(&cfg)
	}
	return document.New(cfg)
}

// TestScope: all spellings of an address are one repository, without credentials, and another account has none of it.
func TestScope(t *testing.T) {
	d := newDocuments(t)
	put, err := d.Put(t.Context(), "a", "k1", "prd", api.PutDocument{Repository: "https://token@Example.org:443/o/r/", Text: "text\n# The product \n# Second\n"})
	if err != nil || put.Repository != "https://example.org/o/r" || put.Title != "The product" || put.Key != "k1" {
		t.Fatal(put, err)
	}
	for _, spelling := range []string{"https://example.org/o/r", "https://example.org/o/r//", "https://EXAMPLE.org/o/r"} {
		if got, err := d.Get(t.Context(), "a", spelling, "prd", 0); err != nil || got != put {
			t.Errorf("%s: %+v, %v", spelling, got, err)
		}
	}
	for _, other := range [][2]string{{"a", ""}, {"b", "https://example.org/o/r"}, {"a", "https://example.org/o/r2"}, {"", "https://example.org/o/r"}} {
		if _, err := d.Get(t.Context(), other[0], other[1], "prd", 0); api.KindOf(err) != api.KindNotFound {
			t.Errorf("%q: %v", other, err)
		}
	}
}

func TestPutRefuses(t *testing.T) {
	full := api.Errorf(api.KindExhausted, "full")
	var room error
	d := newDocuments(t, func(cfg *document.Config) {
		cfg.Room = func(_ context.Context, account, _ string, need int64) error {
			if account != "a" || need != 2 {
				return nil
			}
			return room
		}
	})
	minus := -1
	for name, c := range map[string]struct {
		name string
		req  api.PutDocument
		room error
		kind api.Kind
	}{
		"control":              {"x.y_z-1", api.PutDocument{Text: "xy"}, nil, ""},
		"largest":              {"x", api.PutDocument{Text: strings.Repeat("x", api.MaxDocument)}, nil, ""},
		"too large":            {"x", api.PutDocument{Text: strings.Repeat("x", api.MaxDocument+1)}, nil, api.KindInvalid},
		"empty":                {"x", api.PutDocument{Text: " \n"}, nil, api.KindInvalid},
		"not UTF-8":            {"x", api.PutDocument{Text: "x\xff"}, nil, api.KindInvalid},
		"NUL":                  {"x", api.PutDocument{Text: "x\x00"}, nil, api.KindInvalid},
		"name with a slash":    {".hortus/context/x.md", api.PutDocument{Text: "xy"}, nil, api.KindInvalid},
		"name in upper case":   {"X", api.PutDocument{Text: "xy"}, nil, api.KindInvalid},
		"long name":            {strings.Repeat("x", 64), api.PutDocument{Text: "xy"}, nil, api.KindInvalid},
		"title of two lines":   {"x", api.PutDocument{Text: "xy", Title: "a\nb"}, nil, api.KindInvalid},
		"title with an escape": {"x", api.PutDocument{Text: "xy", Title: "a\x1b[31m"}, nil, api.KindInvalid},
		"title that reorders":  {"x", api.PutDocument{Text: "xy", Title: "a\u202eb"}, nil, api.KindInvalid},
		"no such version":      {"x", api.PutDocument{Text: "xy", IfVersion: &minus}, nil, api.KindInvalid},
		"repository":           {"x", api.PutDocument{Text: "xy", Repository: "ext::sh"}, nil, api.KindInvalid},
		"scheme":               {"x", api.PutDocument{Text: "xy", Repository: "ftp://a:b@h/x"}, nil, api.KindInvalid},
		"no space":             {"x", api.PutDocument{Text: "xy"}, full, api.KindExhausted},
	} {
		room = c.room
		if _, err := d.Put(t.Context(), "a", "", c.name, c.req); api.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A heading is text of whoever wrote the document.
	got, err := d.Put(t.Context(), "a", "", "x", api.PutDocument{Text: "# \x1b[31mRed\u202e \n"})
	if err != nil || got.Title != "[31mRed" {
		t.Errorf("%q, %v", got.Title, err)
	}
}

// TestRead: the first repository that has a document gives it, then the account.
func TestRead(t *testing.T) {
	d := newDocuments(t)
	const r1, r2 = "https://example.org/r1", "https://example.org/r2"
	for _, p := range [][3]string{{"", "all", "of the account"}, {"", "two", "of the account"}, {r2, "two", "of r2"}, {r1, "one", "of r1"}, {r2, "one", "of r2"}, {r1, "one", "of r1, again"}} {
		if _, err := d.Put(t.Context(), "a", "", p[1], api.PutDocument{Repository: p[0], Text: p[2]}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := d.Read(t.Context(), "a", []string{r1, r2}, []string{"one", "two", "all"})
	want := []api.Document{{Name: "one", Text: "of r1, again", Version: 2}, {Name: "two", Text: "of r2", Version: 1}, {Name: "all", Text: "of the account", Version: 1}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := d.Read(t.Context(), "b", []string{r1}, []string{"one"}); api.KindOf(err) != api.KindNotFound {
		t.Errorf("another account reads it: %v", err)
	}
	if list, err := d.List(t.Context(), "a", r2+"/"); err != nil || len(list) != 4 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestFiles: files of the commit are listed, links are not followed, and none has the name of a stored document.
func TestFiles(t *testing.T) {
	dir := gittest.NewCheckout(t, map[string]string{
		".hortus/context/style.md": "# Style\n", ".hortus/context/long.md": strings.Repeat("x", api.MaxDocument+1), ".hortus/context/deep/x.md": "x",
		".hortus/context/notes.txt": "x", ".hortus/context/red.md": "# \x1b]0;x\x07Red", "context/x.md": "x", "secret": "hunter2",
	})
	gittest.Git(t, dir, "checkout", "-q", "-b", "later")
	for name, target := range map[string]string{"link": "../../secret", "host": "/etc/passwd"} {
		hash := gittest.WriteObject(t, dir, "blob", target)
		gittest.Git(t, dir, "update-index", "--add", "--cacheinfo", "120000,"+hash+",.hortus/context/"+name+".md")
	}
	gittest.Git(t, dir, "commit", "-q", "-m", "links")
	copies, err := cache.Open(cache.Config{Dir: filepath.Join(t.TempDir(), "cache")})
	if err != nil {
		t.Fatal(err)
	}
	d := newDocuments(t, func(cfg *document.Config) { cfg.Cache = copies })
	ctx := gittest.Context(t)
	for ref, want := range map[string]map[string]string{
		"main":  {"long": "long: it has more than 32 KiB", "red": "]0;xRed: ", "style": "Style: "},
		"later": {"long": "long: it has more than 32 KiB", "red": "]0;xRed: ", "style": "Style: ", "link": "link: it is a link or a submodule", "host": "host: it is a link or a submodule"},
	} {
		files, err := d.Files(ctx, dir, ref)
		if err != nil || len(files) != len(want) {
			t.Fatalf("%s: %+v, %v", ref, files, err)
		}
		for _, f := range files {
			name := strings.TrimSuffix(strings.TrimPrefix(f.Path, api.ContextDir), ".md")
			if got := f.Title + ": " + f.Unusable; got != want[name] || api.ValidDocumentName(f.Path) || !api.ValidContextFile(f.Path) {
				t.Errorf("%s, %s: %q", ref, f.Path, got)
			}
		}
	}
	for _, p := range []api.PutDocument{{Text: "# Of the account\n"}, {Repository: dir, Text: "# Of the repository\n"}} {
		if _, err := d.Put(ctx, "a", "", "style", p); err != nil {
			t.Fatal(err)
		}
	}
	titles, err := d.Titles(ctx, "a", dir, "later")
	want := []document.Title{{"style", "Of the repository", 20}, {".hortus/context/red.md", "]0;xRed", 11}, {".hortus/context/style.md", "Style", 8}}
	if err != nil || !slices.Equal(titles, want) {
		t.Errorf("%+v, %v", titles, err)
	}
	if titles, err := d.Titles(ctx, "b", dir, "later"); err != nil || len(titles) != 2 {
		t.Errorf("another account: %+v, %v", titles, err)
	}
	if _, err := d.Files(ctx, dir, "none"); api.KindOf(err) != api.KindNotFound {
		t.Error(err)
	}
}

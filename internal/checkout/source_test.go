package checkout_test

import (
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/checkout"
)

func TestParseSource(t *testing.T) {
	there := func(name string) bool {
		return name == "." || name == "/srv/repo" || name == "odd@dir" || name == "../x" || name == "host:dir"
	}
	for in, want := range map[string]checkout.Source{
		".":                                {Path: "."},
		".@main":                           {Path: ".", Ref: "main"},
		"/srv/repo@v1.2":                   {Path: "/srv/repo", Ref: "v1.2"},
		"odd@dir":                          {Path: "odd@dir"},
		"odd@dir@feature/x":                {Path: "odd@dir", Ref: "feature/x"},
		"../x@0123abc":                     {Path: "../x", Ref: "0123abc"},
		"host:dir":                         {Path: "host:dir"},
		"https://host/a/b":                 {URL: "https://host/a/b"},
		"https://host/a/b.git@main":        {URL: "https://host/a/b.git", Ref: "main"},
		"https://host:8443/a@feature/x":    {URL: "https://host:8443/a", Ref: "feature/x"},
		"ssh://git@host/a/b":               {URL: "ssh://git@host/a/b"},
		"ssh://git@host:22/a/b@v1":         {URL: "ssh://git@host:22/a/b", Ref: "v1"},
		"git@host:a/b.git":                 {URL: "git@host:a/b.git"},
		"git@host:a/b.git@release/1.x":     {URL: "git@host:a/b.git", Ref: "release/1.x"},
		"host:a/b":                         {URL: "host:a/b"},
		"file:///srv/repo@main":            {URL: "file:///srv/repo", Ref: "main"},
		"http://127.0.0.1:3000/o/r@x":      {URL: "http://127.0.0.1:3000/o/r", Ref: "x"},
		"https://host/a/b@" + "deadbeef01": {URL: "https://host/a/b", Ref: "deadbeef01"},
	} {
		if got, err := checkout.ParseSource(in, there); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "-x", "--upload-pack=x", "nowhere", "./nowhere@main", ".@", ".@-x", "https://", "https:///x", "ftp://host/x", "ext::sh -c x",
		"file://host/x", "https://user:secret@host/a", "https://secret@host/a", "a\nb", "https://host/a@", strings.Repeat("x", 5000), "ext://x/y", "https://host/%zz",
	} {
		got, err := checkout.ParseSource(in, there)
		if api.KindOf(err) != api.KindInvalid || api.HintOf(err) == "" || strings.Contains(err.Error()+api.HintOf(err), "secret") {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
}

func TestWithoutSecret(t *testing.T) {
	for in, want := range map[string]string{
		"https://user:pass@host/a": "https://host/a", "https://token@host/a": "https://host/a", "http://u@h/x": "http://h/x",
		"ssh://git:pass@host/a": "ssh://host/a", "ssh://git@host/a": "ssh://git@host/a", "git@host:a": "git@host:a", "/srv/a@b": "/srv/a@b", "https://host/a@b": "https://host/a@b",
	} {
		if got := checkout.WithoutSecret(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func FuzzParseSource(f *testing.F) {
	for _, s := range []string{".@main", "https://host/a@b", "git@host:a@b", "ssh://u:p@h/x", "a@b:c", "://", "@", "x://@/@"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, there := range []bool{false, true} {
			got, err := checkout.ParseSource(text, func(string) bool { return there })
			if err != nil {
				if api.KindOf(err) != api.KindInvalid {
					t.Fatal(err)
				}
				continue
			}
			if (got.Path == "") == (got.URL == "") || strings.HasPrefix(got.Ref, "-") || strings.HasPrefix(got.URL, "-") || strings.HasPrefix(got.Path, "-") {
				t.Fatalf("%q is %+v", text, got)
			}
			if checkout.Secret(got.URL) {
				t.Fatalf("%q keeps a secret: %+v", text, got)
			}
		}
	})
}

package secret

import (
	"reflect"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

func usual() secrets.Place {
	return secrets.Place{Kind: secrets.InHeader, Name: "Authorization"}
}

func TestParseBinding(t *testing.T) {
	basic := secrets.Place{Kind: secrets.InBasic}
	for text, want := range map[string]secrets.Binding{
		"https://api.example.org/v1/**":       {Scheme: "https", Host: "api.example.org", Paths: []string{"/v1/**"}, In: usual()},
		"api.example.org":                     {Host: "api.example.org", In: usual()},
		"HTTP://api.example.org:8080/a|/b/*":  {Scheme: "http", Host: "api.example.org", Port: 8080, Paths: []string{"/a", "/b/*"}, In: usual()},
		" GET,POST  https://api.example.org ": {Scheme: "https", Host: "api.example.org", Methods: []string{"GET", "POST"}, In: usual()},
		"api.example.org header=X-API-Key":    {Host: "api.example.org", In: secrets.Place{Kind: secrets.InHeader, Name: "X-API-Key"}},
		"PUT api.example.org/x query=key":     {Host: "api.example.org", Methods: []string{"PUT"}, Paths: []string{"/x"}, In: secrets.Place{Kind: secrets.InQuery, Name: "key"}},
		"api.example.org basic":               {Host: "api.example.org", In: basic},
		"POST https://llm.example.org/v1/** header=X-Api-Key model=anthropic": {Scheme: "https", Host: "llm.example.org", Methods: []string{"POST"}, Paths: []string{"/v1/**"},
			In: secrets.Place{Kind: secrets.InHeader, Name: "X-Api-Key"}, Model: secrets.Anthropic},
		"llm.example.org basic model=openai":    {Host: "llm.example.org", In: basic, Model: secrets.OpenAI},
		"git https://git.example.org/o/r fetch": {Scheme: "https", Host: "git.example.org", In: basic, Git: &secrets.Git{Repository: "/o/r", Fetch: true}},
		"git git.example.org/o/r.git/ push=refs/heads/a/* push=refs/tags/* force delete": {Host: "git.example.org", In: basic,
			Git: &secrets.Git{Repository: "/o/r", Push: []string{"refs/heads/a/*", "refs/tags/*"}, Force: true, Delete: true}},
	} {
		got, err := ParseBinding(text, usual())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
		again, err := ParseBinding(FormatBinding(got), usual())
		if err != nil || !reflect.DeepEqual(again.WithDefaults(), got.WithDefaults()) {
			t.Errorf("%q is written as %q, which is %+v, %v", text, FormatBinding(got), again, err)
		}
	}
	for text, part := range map[string]string{
		"":                                       "no address",
		"GET":                                    "no address",
		"git":                                    "no address",
		"ftp://api.example.org":                  "neither https",
		"https://api.example.org/":               "the path / alone",
		"https://user:canary@api.example.org":    "has a user",
		"https://api.example.org/x?key=canary":   "has a user, a query",
		"https://api.example.org#canary":         "has a user, a query",
		"https://api.example.org:0/x":            "no valid port",
		"https://api.example.org:x":              "no valid port",
		"https://api.example.org:65536":          "no valid port",
		"https://[::1]/x:8":                      "no valid port",
		"get https://api.example.org":            "not header=NAME",
		"https://api.example.org GET":            "not header=NAME",
		"https://api.example.org header":         "not header=NAME",
		"https://api.example.org fetch":          "not header=NAME",
		"https://api.example.org model":          "model=API",
		"git git.example.org/o/r model=openai":   "not fetch",
		"git https://git.example.org fetch":      "no path of a repository",
		"git https://git.example.org/o/r basic":  "not fetch",
		"git https://git.example.org/o/r push":   "not fetch",
		"git https://git.example.org/o/r?canary": "has a user, a query",
	} {
		if _, err := ParseBinding(text, usual()); api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), part) || strings.Contains(err.Error()+api.HintOf(err), "canary") {
			t.Errorf("%q: %v, want %q", text, err, part)
		}
	}
}

// FuzzBinding: what is read, and is a valid binding, is written in a form that reads as the same.
func FuzzBinding(f *testing.F) {
	f.Add("GET,POST https://api.example.org:8443/v1/**|/x header=X-API-Key")
	f.Add("git http://git.example.org/o/r fetch push=refs/heads/* force delete")
	f.Add("api.example.org query=key")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseBinding(text, usual())
		if err != nil || secrets.Check(secrets.Set{Value: "long-value", Bindings: []secrets.Binding{b}}) != nil {
			return
		}
		out := FormatBinding(b)
		again, err := ParseBinding(out, usual())
		if err != nil || !reflect.DeepEqual(again.WithDefaults(), b.WithDefaults()) {
			t.Fatalf("%q is %+v, written as %q, which is %+v, %v", text, b, out, again, err)
		}
	})
}

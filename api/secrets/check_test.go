package secrets_test

import (
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// TestCheck: each refusal is one change of a request that is valid.
func TestCheck(t *testing.T) {
	const value = "canary-of-a-value"
	aws := `{"accessKeyId":"AKIDEXAMPLE","secretAccessKey":"canary"}`
	for name, c := range map[string]struct {
		change func(*secrets.Set)
		want   string // a part of the error; "" if it is valid
	}{
		"a stored value":           {func(*secrets.Set) {}, ""},
		"its source by name":       {func(s *secrets.Set) { s.Source = secrets.Stored }, ""},
		"the shortest value":       {func(s *secrets.Set) { s.Value = strings.Repeat("x", secrets.MinValue) }, ""},
		"a shorter value":          {func(s *secrets.Set) { s.Value = strings.Repeat("x", secrets.MinValue-1) }, "the minimum is 8"},
		"the longest value":        {func(s *secrets.Set) { s.Value = strings.Repeat("x", secrets.MaxValue) }, ""},
		"a longer value":           {func(s *secrets.Set) { s.Value = strings.Repeat("x", secrets.MaxValue+1) }, "more than"},
		"no value":                 {func(s *secrets.Set) { s.Value = "" }, "0 bytes"},
		"a line feed":              {func(s *secrets.Set) { s.Value += "\n" }, "line break"},
		"a carriage return":        {func(s *secrets.Set) { s.Value = "first\rsecond" }, "line break"},
		"a NUL":                    {func(s *secrets.Set) { s.Value += "\x00" }, "NUL"},
		"a value and a path":       {func(s *secrets.Set) { s.From = "/x" }, "neither a variable"},
		"a value and a command":    {func(s *secrets.Set) { s.Command = []string{"x"} }, "neither a variable"},
		"a variable":               {from(secrets.Variable, "TOKEN"), ""},
		"no variable":              {from(secrets.Variable, ""), "needs its variable"},
		"a variable with =":        {from(secrets.Variable, "A=B"), "not the name of an environment variable"},
		"a variable and a value":   {func(s *secrets.Set) { s.Source, s.From = secrets.Variable, "TOKEN" }, "cannot be given"},
		"a file":                   {from(secrets.File, "/run/token"), ""},
		"a relative file":          {from(secrets.File, "run/token"), "not an absolute path"},
		"a file with a NUL":        {from(secrets.File, "/run/\x00"), "not text"},
		"a long path":              {from(secrets.File, "/"+strings.Repeat("x", api.MaxPath)), "too long"},
		"a command":                {command("printenv", "TOKEN"), ""},
		"a command, a lifetime":    {all(command("x"), func(s *secrets.Set) { s.LifetimeMS = 1000 }), ""},
		"a command, a day":         {all(command("x"), func(s *secrets.Set) { s.LifetimeMS = secrets.MaxLifetime.Milliseconds() }), ""},
		"a command, longer":        {all(command("x"), func(s *secrets.Set) { s.LifetimeMS = secrets.MaxLifetime.Milliseconds() + 1 }), "lifetime"},
		"a command, no time":       {all(command("x"), func(s *secrets.Set) { s.LifetimeMS = -1 }), "lifetime"},
		"a command by path":        {command("/usr/bin/printenv"), ""},
		"a relative path":          {command("bin/printenv"), "absolute path"},
		"no command":               {command(), "needs a command"},
		"an empty command":         {command("", "x"), "needs a command"},
		"a command with a NUL":     {command("x", "\x00"), "not text"},
		"a long command":           {command("x", strings.Repeat("x", api.MaxRecordedArgs)), "too long"},
		"a value with a lifetime":  {func(s *secrets.Set) { s.LifetimeMS = 1 }, "only a secret from a command"},
		"another source":           {func(s *secrets.Set) { s.Source, s.Value = "vault", "" }, "source"},
		"another signer":           {func(s *secrets.Set) { s.Signer = "hmac" }, "signer"},
		"AWS keys":                 {signed(secrets.SigV4, aws), ""},
		"AWS keys, other case":     {signed(secrets.SigV4, strings.ReplaceAll(aws, "accessKeyId", "AccessKeyId")), ""},
		"AWS keys, one missing":    {signed(secrets.SigV4, `{"accessKeyId":"AKIDEXAMPLE"}`), "secretAccessKey"},
		"AWS keys, not JSON":       {signed(secrets.SigV4, value), "JSON object"},
		"AWS keys in a parameter":  {all(signed(secrets.SigV4, aws), in(secrets.InQuery, "key")), "header Authorization"},
		"OAuth":                    {signed(secrets.OAuth, `{"tokenUrl":"https://example.org/t","refreshToken":"r","clientId":"c"}`), ""},
		"OAuth without a URL":      {signed(secrets.OAuth, `{"refreshToken":"r","clientId":"c"}`), "tokenUrl"},
		"no binding":               {func(s *secrets.Set) { s.Bindings = nil }, ""},
		"no binding, a variable":   {all(from(secrets.Variable, "TOKEN"), func(s *secrets.Set) { s.Bindings = nil }), ""},
		"no binding, a signer":     {all(signed(secrets.SigV4, aws), func(s *secrets.Set) { s.Bindings = nil }), "there is no binding"},
		"many bindings":            {bindings(secrets.MaxBindings), ""},
		"too many bindings":        {bindings(secrets.MaxBindings + 1), "33 bindings"},
		"http":                     {bind(func(b *secrets.Binding) { b.Scheme = "http" }), ""},
		"ftp":                      {bind(func(b *secrets.Binding) { b.Scheme = "ftp" }), "scheme"},
		"no host":                  {bind(func(b *secrets.Binding) { b.Host = "" }), "host"},
		"a wildcard":               {bind(func(b *secrets.Binding) { b.Host = "*.example.org" }), "host"},
		"an address":               {bind(func(b *secrets.Binding) { b.Host = "192.0.2.1" }), "address"},
		"a port":                   {bind(func(b *secrets.Binding) { b.Port = 8443 }), ""},
		"a port out of range":      {bind(func(b *secrets.Binding) { b.Port = 65536 }), "port"},
		"a method":                 {bind(func(b *secrets.Binding) { b.Methods = []string{"GET"} }), ""},
		"a query":                  {in(secrets.InQuery, "key"), ""},
		"a query without a name":   {in(secrets.InQuery, ""), "name of a query"},
		"a header with a space":    {in(secrets.InHeader, "X Key"), "name of a header"},
		"the header Host":          {in(secrets.InHeader, "host"), "cannot have a secret"},
		"basic":                    {in(secrets.InBasic, ""), ""},
		"basic with a name":        {in(secrets.InBasic, "x"), "no name"},
		"no place":                 {in("", ""), "place"},
		"git":                      {git(secrets.Git{Repository: "/o/r", Fetch: true, Push: []string{"refs/heads/x/*"}}), ""},
		"git without a right":      {git(secrets.Git{Repository: "/o/r"}), "neither fetch nor push"},
		"git, a path with dots":    {git(secrets.Git{Repository: "/o/../r", Fetch: true}), "path of a repository"},
		"git, a pattern":           {git(secrets.Git{Repository: "/o/*", Fetch: true}), "path of a repository"},
		"git, a ref without refs/": {git(secrets.Git{Repository: "/o/r", Push: []string{"main"}}), "begins with refs/"},
	} {
		s := secrets.Set{Value: value, Bindings: []secrets.Binding{{Host: "api.example.org", Paths: []string{"/v1/**"}, In: secrets.Place{Kind: secrets.InHeader, Name: "Authorization"}}}}
		c.change(&s)
		err := secrets.Check(s)
		if c.want == "" && err != nil || c.want != "" && (api.KindOf(err) != api.KindInvalid || !strings.Contains(fmt.Sprint(err), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error contains the value: %v", name, err)
		}
	}
}

func from(source secrets.Source, name string) func(*secrets.Set) {
	return func(s *secrets.Set) { s.Value, s.Source, s.From = "", source, name }
}

func command(args ...string) func(*secrets.Set) {
	return func(s *secrets.Set) { s.Value, s.Source, s.Command = "", secrets.Command, args }
}

func signed(by secrets.Signer, value string) func(*secrets.Set) {
	return func(s *secrets.Set) { s.Signer, s.Value = by, value }
}

func bind(change func(*secrets.Binding)) func(*secrets.Set) {
	return func(s *secrets.Set) { change(&s.Bindings[0]) }
}

func bindings(n int) func(*secrets.Set) {
	return func(s *secrets.Set) {
		for len(s.Bindings) < n {
			s.Bindings = append(s.Bindings, s.Bindings[0])
		}
	}
}

func in(kind secrets.PlaceKind, name string) func(*secrets.Set) {
	return bind(func(b *secrets.Binding) { b.In = secrets.Place{Kind: kind, Name: name} })
}

func git(g secrets.Git) func(*secrets.Set) {
	return bind(func(b *secrets.Binding) { b.In, b.Git = secrets.Place{Kind: secrets.InBasic}, &g })
}

func all(changes ...func(*secrets.Set)) func(*secrets.Set) {
	return func(s *secrets.Set) {
		for _, change := range changes {
			change(s)
		}
	}
}

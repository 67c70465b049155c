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
		change func(*api.SetSecret)
		want   string // a part of the error; "" if it is valid
	}{
		"a stored value":           {func(*api.SetSecret) {}, ""},
		"its source by name":       {func(s *api.SetSecret) { s.Source = api.SecretStored }, ""},
		"the shortest value":       {func(s *api.SetSecret) { s.Value = strings.Repeat("x", api.MinSecretValue) }, ""},
		"a shorter value":          {func(s *api.SetSecret) { s.Value = strings.Repeat("x", api.MinSecretValue-1) }, "the minimum is 8"},
		"the longest value":        {func(s *api.SetSecret) { s.Value = strings.Repeat("x", api.MaxSecretValue) }, ""},
		"a longer value":           {func(s *api.SetSecret) { s.Value = strings.Repeat("x", api.MaxSecretValue+1) }, "more than"},
		"no value":                 {func(s *api.SetSecret) { s.Value = "" }, "0 bytes"},
		"a line feed":              {func(s *api.SetSecret) { s.Value += "\n" }, "line break"},
		"a carriage return":        {func(s *api.SetSecret) { s.Value = "first\rsecond" }, "line break"},
		"a NUL":                    {func(s *api.SetSecret) { s.Value += "\x00" }, "NUL"},
		"a value and a path":       {func(s *api.SetSecret) { s.From = "/x" }, "neither a variable"},
		"a value and a command":    {func(s *api.SetSecret) { s.Command = []string{"x"} }, "neither a variable"},
		"a variable":               {from(api.SecretVariable, "TOKEN"), ""},
		"no variable":              {from(api.SecretVariable, ""), "needs its variable"},
		"a variable with =":        {from(api.SecretVariable, "A=B"), "not the name of an environment variable"},
		"a variable and a value":   {func(s *api.SetSecret) { s.Source, s.From = api.SecretVariable, "TOKEN" }, "cannot be given"},
		"a file":                   {from(api.SecretFile, "/run/token"), ""},
		"a relative file":          {from(api.SecretFile, "run/token"), "not an absolute path"},
		"a file with a NUL":        {from(api.SecretFile, "/run/\x00"), "not text"},
		"a long path":              {from(api.SecretFile, "/"+strings.Repeat("x", api.MaxPath)), "too long"},
		"a command":                {command("printenv", "TOKEN"), ""},
		"a command, a lifetime":    {all(command("x"), func(s *api.SetSecret) { s.LifetimeMS = 1000 }), ""},
		"a command, a day":         {all(command("x"), func(s *api.SetSecret) { s.LifetimeMS = api.MaxSecretLifetime.Milliseconds() }), ""},
		"a command, longer":        {all(command("x"), func(s *api.SetSecret) { s.LifetimeMS = api.MaxSecretLifetime.Milliseconds() + 1 }), "lifetime"},
		"a command, no time":       {all(command("x"), func(s *api.SetSecret) { s.LifetimeMS = -1 }), "lifetime"},
		"a command by path":        {command("/usr/bin/printenv"), ""},
		"a relative path":          {command("bin/printenv"), "absolute path"},
		"no command":               {command(), "needs a command"},
		"an empty command":         {command("", "x"), "needs a command"},
		"a command with a NUL":     {command("x", "\x00"), "not text"},
		"a long command":           {command("x", strings.Repeat("x", api.MaxRecordedArgs)), "too long"},
		"a value with a lifetime":  {func(s *api.SetSecret) { s.LifetimeMS = 1 }, "only a secret from a command"},
		"another source":           {func(s *api.SetSecret) { s.Source, s.Value = "vault", "" }, "source"},
		"another signer":           {func(s *api.SetSecret) { s.Signer = "hmac" }, "signer"},
		"AWS keys":                 {signed(api.SecretSigV4, aws), ""},
		"AWS keys, other case":     {signed(api.SecretSigV4, strings.ReplaceAll(aws, "accessKeyId", "AccessKeyId")), ""},
		"AWS keys, one missing":    {signed(api.SecretSigV4, `{"accessKeyId":"AKIDEXAMPLE"}`), "secretAccessKey"},
		"AWS keys, not JSON":       {signed(api.SecretSigV4, value), "JSON object"},
		"AWS keys in a parameter":  {all(signed(api.SecretSigV4, aws), in(api.SecretInQuery, "key")), "header Authorization"},
		"OAuth":                    {signed(api.SecretOAuth, `{"tokenUrl":"https://example.org/t","refreshToken":"r","clientId":"c"}`), ""},
		"OAuth without a URL":      {signed(api.SecretOAuth, `{"refreshToken":"r","clientId":"c"}`), "tokenUrl"},
		"no binding":               {func(s *api.SetSecret) { s.Bindings = nil }, ""},
		"no binding, a variable":   {all(from(api.SecretVariable, "TOKEN"), func(s *api.SetSecret) { s.Bindings = nil }), ""},
		"no binding, a signer":     {all(signed(api.SecretSigV4, aws), func(s *api.SetSecret) { s.Bindings = nil }), "there is no binding"},
		"many bindings":            {bindings(api.MaxSecretBindings), ""},
		"too many bindings":        {bindings(api.MaxSecretBindings + 1), "33 bindings"},
		"http":                     {bind(func(b *api.SecretBinding) { b.Scheme = "http" }), ""},
		"ftp":                      {bind(func(b *api.SecretBinding) { b.Scheme = "ftp" }), "scheme"},
		"no host":                  {bind(func(b *api.SecretBinding) { b.Host = "" }), "host"},
		"a wildcard":               {bind(func(b *api.SecretBinding) { b.Host = "*.example.org" }), "host"},
		"an address":               {bind(func(b *api.SecretBinding) { b.Host = "192.0.2.1" }), "address"},
		"a port":                   {bind(func(b *api.SecretBinding) { b.Port = 8443 }), ""},
		"a port out of range":      {bind(func(b *api.SecretBinding) { b.Port = 65536 }), "port"},
		"a method":                 {bind(func(b *api.SecretBinding) { b.Methods = []string{"GET"} }), ""},
		"a query":                  {in(api.SecretInQuery, "key"), ""},
		"a query without a name":   {in(api.SecretInQuery, ""), "name of a query"},
		"a header with a space":    {in(api.SecretInHeader, "X Key"), "name of a header"},
		"the header Host":          {in(api.SecretInHeader, "host"), "cannot have a secret"},
		"basic":                    {in(api.SecretInBasic, ""), ""},
		"basic with a name":        {in(api.SecretInBasic, "x"), "no name"},
		"no place":                 {in("", ""), "place"},
		"git":                      {git(api.SecretGit{Repository: "/o/r", Fetch: true, Push: []string{"refs/heads/x/*"}}), ""},
		"git without a right":      {git(api.SecretGit{Repository: "/o/r"}), "neither fetch nor push"},
		"git, a path with dots":    {git(api.SecretGit{Repository: "/o/../r", Fetch: true}), "path of a repository"},
		"git, a pattern":           {git(api.SecretGit{Repository: "/o/*", Fetch: true}), "path of a repository"},
		"git, a ref without refs/": {git(api.SecretGit{Repository: "/o/r", Push: []string{"main"}}), "begins with refs/"},
	} {
		s := api.SetSecret{Value: value, Bindings: []api.SecretBinding{{Host: "api.example.org", Paths: []string{"/v1/**"}, In: api.SecretPlace{Kind: api.SecretInHeader, Name: "Authorization"}}}}
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

func from(source api.SecretSource, name string) func(*api.SetSecret) {
	return func(s *api.SetSecret) { s.Value, s.Source, s.From = "", source, name }
}

func command(args ...string) func(*api.SetSecret) {
	return func(s *api.SetSecret) { s.Value, s.Source, s.Command = "", api.SecretCommand, args }
}

func signed(by api.SecretSigner, value string) func(*api.SetSecret) {
	return func(s *api.SetSecret) { s.Signer, s.Value = by, value }
}

func bind(change func(*api.SecretBinding)) func(*api.SetSecret) {
	return func(s *api.SetSecret) { change(&s.Bindings[0]) }
}

func bindings(n int) func(*api.SetSecret) {
	return func(s *api.SetSecret) {
		for len(s.Bindings) < n {
			s.Bindings = append(s.Bindings, s.Bindings[0])
		}
	}
}

func in(kind api.SecretPlaceKind, name string) func(*api.SetSecret) {
	return bind(func(b *api.SecretBinding) { b.In = api.SecretPlace{Kind: kind, Name: name} })
}

func git(g api.SecretGit) func(*api.SetSecret) {
	return bind(func(b *api.SecretBinding) { b.In, b.Git = api.SecretPlace{Kind: api.SecretInBasic}, &g })
}

func all(changes ...func(*api.SetSecret)) func(*api.SetSecret) {
	return func(s *api.SetSecret) {
		for _, change := range changes {
			change(s)
		}
	}
}

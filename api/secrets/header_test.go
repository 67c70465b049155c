package secrets_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

func TestTemplate(t *testing.T) {
	for value, want := range map[string][]secrets.Part{
		"":                           nil,
		"text":                       {{Text: "text"}},
		"${secret:a}":                {{Secret: "a"}},
		"Bearer ${secret:a-b.c_1}":   {{Text: "Bearer "}, {Secret: "a-b.c_1"}},
		"${secret:a}:${secret:b}x":   {{Secret: "a"}, {Text: ":"}, {Secret: "b"}, {Text: "x"}},
		"${other} $ {} ${":           {{Text: "${other} $ {} ${"}},
		"${secret:a}}":               {{Secret: "a"}, {Text: "}"}},
		"${secret:a":                 nil,
		"${secret:}":                 nil,
		"${secret:A}":                nil,
		"${secret:uses}":             nil,
		"${secret:${secret:a}}":      nil,
		"${secrets:a}":               nil,
		"${secret}":                  nil,
		"${e2b.secrets.a}":           nil,
		"x ${e2b.identity.tokens.a}": nil,
		"${secret:a} ${secret.b}":    nil,
	} {
		got, err := secrets.Template(value)
		if (err == nil) != (want != nil || value == "") || err == nil && !slices.Equal(got, want) || err != nil && api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %+v, %v", value, got, err)
		}
	}
}

// FuzzTemplate: what is read has all text of the value.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"", "${secret:a}", "a${secret:b}c", "${secret:${secret:a}}", "${e2b.secrets.a}", "${secret:a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		parts, err := secrets.Template(value)
		if err != nil {
			return
		}
		var all strings.Builder
		for _, p := range parts {
			if p.Secret == "" && p.Text == "" || p.Secret != "" && !api.ValidSecretName(p.Secret) {
				t.Errorf("%q has the part %+v", value, p)
			}
			if all.WriteString(p.Text); p.Secret != "" {
				all.WriteString("${secret:" + p.Secret + "}")
			}
			if strings.Contains(p.Text, "${secret") {
				t.Errorf("%q: a reference is text: %+v", value, p)
			}
		}
		if all.String() != value {
			t.Errorf("%q was read as %q", value, all.String())
		}
	})
}

func TestCheckHeaders(t *testing.T) {
	rule := func(host, name, value string) api.HeaderRule {
		return api.HeaderRule{Host: host, Headers: map[string]string{name: value}}
	}
	many := func(n int, host string) (out []api.HeaderRule) {
		for i := range n {
			out = append(out, rule(fmt.Sprintf(host, i), "X-Key", "a"))
		}
		return out
	}
	headers := func(n int, value string) api.HeaderRule {
		out := api.HeaderRule{Host: "api.example.org", Headers: map[string]string{}}
		for i := range n {
			out.Headers[fmt.Sprintf("X-%d", i)] = strings.ReplaceAll(value, "N", fmt.Sprint(i))
		}
		return out
	}
	named := func(n int) (out []api.HeaderRule) {
		for i := range (n + 19) / 20 {
			r := headers(min(20, n-20*i), fmt.Sprintf("${secret:s%d-N}", i))
			r.Port = 1000 + i
			out = append(out, r)
		}
		return out
	}
	const ok = "api.example.org"
	for name, c := range map[string]struct {
		rules []api.HeaderRule
		want  string // in the error
	}{
		"none":                       {nil, ""},
		"one":                        {[]api.HeaderRule{rule(ok, "X-Key", "Bearer ${secret:a}")}, ""},
		"no headers":                 {[]api.HeaderRule{{Host: ok}}, ""},
		"a wildcard":                 {[]api.HeaderRule{rule("*.example.org", "X-Key", "a")}, ""},
		"every host":                 {[]api.HeaderRule{rule("*", "X-Key", "a")}, "not a name"},
		"a wildcard within":          {[]api.HeaderRule{rule("a.*.org", "X-Key", "a")}, "not a name"},
		"a wildcard alone":           {[]api.HeaderRule{rule("*.", "X-Key", "a")}, "not a name"},
		"no host":                    {[]api.HeaderRule{rule("", "X-Key", "a")}, "not a name"},
		"a URL":                      {[]api.HeaderRule{rule("https://a.example", "X-Key", "a")}, "not a name"},
		"a port in the host":         {[]api.HeaderRule{rule("a.example:443", "X-Key", "a")}, "not a name"},
		"an address":                 {[]api.HeaderRule{rule("192.0.2.1", "X-Key", "a")}, "is an address"},
		"an address of IPv6":         {[]api.HeaderRule{rule("2001:db8::1", "X-Key", "a")}, "not a name"},
		"a port":                     {[]api.HeaderRule{{Host: ok, Port: 65535}}, ""},
		"a port out of range":        {[]api.HeaderRule{{Host: ok, Port: 65536}}, "out of range"},
		"a negative port":            {[]api.HeaderRule{{Host: ok, Port: -1}}, "out of range"},
		"two for a host":             {[]api.HeaderRule{{Host: ok}, {Host: strings.ToUpper(ok), Port: 443}}, "two header rules"},
		"two ports":                  {[]api.HeaderRule{{Host: ok}, {Host: ok, Port: 8443}}, ""},
		"the maximum of rules":       {many(secrets.MaxHeaderRules, "h%d.example.org"), ""},
		"too many rules":             {many(secrets.MaxHeaderRules+1, "h%d.example.org"), "33 header rules"},
		"the maximum of headers":     {[]api.HeaderRule{headers(secrets.MaxRuleHeaders, "a")}, ""},
		"too many headers":           {[]api.HeaderRule{headers(secrets.MaxRuleHeaders+1, "a")}, "21 headers"},
		"the maximum of secrets":     {named(api.MaxSecretGrants), ""},
		"too many secrets":           {named(api.MaxSecretGrants + 1), "65 secrets"},
		"Host":                       {[]api.HeaderRule{rule(ok, "hOsT", "a")}, "cannot set"},
		"Connection":                 {[]api.HeaderRule{rule(ok, "Connection", "a")}, "cannot set"},
		"Transfer-Encoding":          {[]api.HeaderRule{rule(ok, "Transfer_Encoding", "a")}, "cannot set"},
		"Content-Length":             {[]api.HeaderRule{rule(ok, "content-length", "1")}, "cannot set"},
		"Upgrade":                    {[]api.HeaderRule{rule(ok, "Upgrade", "a")}, "cannot set"},
		"Range":                      {[]api.HeaderRule{rule(ok, "Range", "a")}, "cannot set"},
		"Accept-Encoding":            {[]api.HeaderRule{rule(ok, "Accept-Encoding", "br")}, "cannot set"},
		"of WebSocket":               {[]api.HeaderRule{rule(ok, "Sec-WebSocket-Key", "a")}, "cannot set"},
		"a method":                   {[]api.HeaderRule{rule(ok, "X-HTTP-Method-Override", "DELETE")}, "cannot set"},
		"Authorization":              {[]api.HeaderRule{rule(ok, "Authorization", "a")}, ""},
		"Cookie":                     {[]api.HeaderRule{rule(ok, "Cookie", "a=b; c=d")}, ""},
		"no name":                    {[]api.HeaderRule{rule(ok, "", "a")}, "not that of a header"},
		"a name with a space":        {[]api.HeaderRule{rule(ok, "X Key", "a")}, "not that of a header"},
		"a name with CR LF":          {[]api.HeaderRule{rule(ok, "X\r\nY", "a")}, "not that of a header"},
		"a name with a colon":        {[]api.HeaderRule{rule(ok, "X:Y", "a")}, "not that of a header"},
		"a pseudo-header":            {[]api.HeaderRule{rule(ok, ":authority", "a")}, "not that of a header"},
		"a long name":                {[]api.HeaderRule{rule(ok, strings.Repeat("x", secrets.MaxHeaderName+1), "a")}, "not that of a header"},
		"names that are the same":    {[]api.HeaderRule{{Host: ok, Headers: map[string]string{"X-Key": "a", "x_key": "b"}}}, "twice"},
		"no value":                   {[]api.HeaderRule{rule(ok, "X-Key", "")}, "empty"},
		"a value with CR LF":         {[]api.HeaderRule{rule(ok, "X-Key", "a\r\nX-Other: b")}, "line break"},
		"a value with NUL":           {[]api.HeaderRule{rule(ok, "X-Key", "a\x00")}, "control character"},
		"a value that is not UTF-8":  {[]api.HeaderRule{rule(ok, "X-Key", "\xff")}, "UTF-8"},
		"a space at the end":         {[]api.HeaderRule{rule(ok, "X-Key", "a ")}, "space"},
		"the longest value":          {[]api.HeaderRule{rule(ok, "X-Key", strings.Repeat("x", secrets.MaxHeaderValue))}, ""},
		"a longer value":             {[]api.HeaderRule{rule(ok, "X-Key", strings.Repeat("x", secrets.MaxHeaderValue+1))}, "maximum"},
		"a reference without a name": {[]api.HeaderRule{rule(ok, "X-Key", "${secret:}")}, "reference"},
		"an unknown reference":       {[]api.HeaderRule{rule(ok, "X-Key", "${e2b.secrets.a}")}, "reference"},
	} {
		err := secrets.CheckHeaders(c.rules)
		if c.want == "" && err != nil || c.want != "" && (api.KindOf(err) != api.KindInvalid || !strings.Contains(fmt.Sprint(err), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if got := secrets.Named(headers(3, "${secret:bN} ${secret:a}")); !slices.Equal(got, []string{"a", "b0", "b1", "b2"}) {
		t.Errorf("%q", got)
	}
}

// TestCheckForHeaders: what a secret for headers may have beside its value.
func TestCheckForHeaders(t *testing.T) {
	bound := []secrets.Binding{{Host: "api.example.org", In: secrets.Place{Kind: secrets.InBasic}}}
	metadata := func(n int, key, value string) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[key+fmt.Sprint(i)] = value
		}
		return out
	}
	for name, c := range map[string]struct {
		set  secrets.Set
		want string
	}{
		"a value":               {secrets.Set{Value: "long-enough", ForHeaders: true}, ""},
		"a variable":            {secrets.Set{Source: secrets.Variable, From: "TOKEN", ForHeaders: true}, ""},
		"bindings":              {secrets.Set{Value: "long-enough", ForHeaders: true, Bindings: bound}, "neither bindings"},
		"bindings, the control": {secrets.Set{Value: "long-enough", Bindings: bound}, ""},
		"a signer":              {secrets.Set{Value: `{"tokenUrl":"https://example.org/t","refreshToken":"r","clientId":"c"}`, Signer: secrets.OAuth, ForHeaders: true}, "neither bindings"},
		"a negative version":    {secrets.Set{Value: "long-enough", ForHeaders: true, Version: -1}, "negative"},
		"metadata":              {secrets.Set{Value: "long-enough", Metadata: metadata(secrets.MaxMetadata, "k", "v")}, ""},
		"too much metadata":     {secrets.Set{Value: "long-enough", Metadata: metadata(secrets.MaxMetadata+1, "k", "v")}, "33 entries"},
		"a long key":            {secrets.Set{Value: "long-enough", Metadata: map[string]string{strings.Repeat("k", 129): "v"}}, "the key"},
		"no key":                {secrets.Set{Value: "long-enough", Metadata: map[string]string{"": "v"}}, "the key"},
		"a long value":          {secrets.Set{Value: "long-enough", Metadata: map[string]string{"k": strings.Repeat("v", 1025)}}, "the maximum is 1024"},
		"many bytes":            {secrets.Set{Value: "long-enough", Metadata: metadata(9, "k", strings.Repeat("v", 1000))}, "the maximum is 8192"},
	} {
		err := secrets.Check(c.set)
		if c.want == "" && err != nil || c.want != "" && (api.KindOf(err) != api.KindInvalid || !strings.Contains(fmt.Sprint(err), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

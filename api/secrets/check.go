package secrets

import (
	"encoding/json"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
)

// CheckValue refuses a value that cannot be used, whatever its source: api.KindInvalid. Its
// error does not contain the value.
func CheckValue(signer Signer, value string) error {
	switch {
	case len(value) < MinValue:
		return api.Errorf(api.KindInvalid, "the value has %d bytes; the minimum is %d", len(value), MinValue)
	case len(value) > MaxValue:
		return api.Errorf(api.KindInvalid, "the value has more than %d bytes", MaxValue)
	case strings.ContainsAny(value, "\r\n\x00"):
		return api.Errorf(api.KindInvalid, "the value contains a line break or a NUL byte")
	case signer == Plain:
		return nil
	}
	var fields map[string]any
	if json.Unmarshal([]byte(value), &fields) != nil {
		return api.Errorf(api.KindInvalid, "the value is not a JSON object, which signer %q needs", signer)
	}
	need := []string{"accessKeyId", "secretAccessKey"}
	if signer == OAuth {
		need = []string{"tokenUrl", "refreshToken", "clientId"}
	}
	for _, name := range need {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(fields)), func(have string) bool {
			text, ok := fields[have].(string)
			return ok && text != "" && strings.EqualFold(have, name)
		}) {
			return api.Errorf(api.KindInvalid, "the value has no text %q, which signer %q needs", name, signer)
		}
	}
	return nil
}

// Check refuses a request that is malformed or out of bounds: api.KindInvalid. A secret without
// bindings is for header rules if it says so, and otherwise for the daemon alone.
func Check(s Set) error {
	invalid := func(format string, args ...any) error { return api.Errorf(api.KindInvalid, "secret: "+format, args...) }
	args := 0
	for _, a := range s.Command {
		args += len(a) + 1
		if strings.ContainsRune(a, 0) || !utf8.ValidString(a) {
			return invalid("an argument of the command is not text")
		}
	}
	switch {
	case len(s.From) > api.MaxPath || strings.ContainsRune(s.From, 0) || !utf8.ValidString(s.From) || args > api.MaxRecordedArgs:
		return invalid("the variable, path or command is too long or not text")
	case s.LifetimeMS < 0 || s.LifetimeMS > MaxLifetime.Milliseconds():
		return invalid("a lifetime of %d ms is not between 0 and %d", s.LifetimeMS, MaxLifetime.Milliseconds())
	case s.LifetimeMS != 0 && s.Source != Command:
		return invalid("only a secret from a command has a lifetime")
	case !slices.Contains([]Signer{Plain, SigV4, OAuth}, s.Signer):
		return invalid("signer %.40q is neither empty, %q nor %q", string(s.Signer), SigV4, OAuth)
	}
	stored := s.Source == "" || s.Source == Stored
	switch {
	case stored && (s.From != "" || len(s.Command) > 0):
		return invalid("a stored value has neither a variable, a path nor a command")
	case stored:
		if err := CheckValue(s.Signer, s.Value); err != nil {
			return invalid("%w", err)
		}
	case s.Value != "":
		return invalid("a value cannot be given with source %q", s.Source)
	case s.Source == Variable || s.Source == File:
		if s.From == "" || len(s.Command) > 0 {
			return invalid("source %q needs its variable or path in from, and no command", s.Source)
		}
		if s.Source == File && !path.IsAbs(s.From) {
			return invalid("%.80q is not an absolute path", s.From)
		}
		if s.Source == Variable && (len(s.From) > api.MaxLabelName || strings.Contains(s.From, "=")) {
			return invalid("%.80q is not the name of an environment variable", s.From)
		}
	case s.Source == Command:
		if len(s.Command) == 0 || s.Command[0] == "" || s.From != "" {
			return invalid("source %q needs a command, and nothing in from", s.Source)
		}
		if strings.Contains(s.Command[0], "/") && !path.IsAbs(s.Command[0]) {
			return invalid("%.80q is neither a name nor an absolute path of a program", s.Command[0])
		}
	default:
		return invalid("source %.40q is none of %q, %q, %q, %q", string(s.Source), Stored, Variable, File, Command)
	}
	if len(s.Bindings) > MaxBindings {
		return invalid("%d bindings; the maximum is %d", len(s.Bindings), MaxBindings)
	}
	if s.Version < 0 {
		return invalid("version %d is negative", s.Version)
	}
	if s.ForHeaders && (len(s.Bindings) > 0 || s.Signer != Plain) {
		return invalid("one for headers has neither bindings nor a signer: its rules say where it is sent")
	}
	if err := checkMetadata(s.Metadata); err != nil {
		return err
	}
	if len(s.Bindings) == 0 && s.Signer != Plain {
		return invalid("there is no binding, but only requests of sandboxes are signed")
	}
	for i, b := range s.Bindings {
		if err := checkBinding(b); err != nil {
			return api.Errorf(api.KindInvalid, "secret: binding %d: %w", i+1, err)
		}
		if s.Signer == SigV4 && (b.In.Kind != InHeader || !strings.EqualFold(b.In.Name, "Authorization")) {
			return api.Errorf(api.KindInvalid, "secret: binding %d: a request is signed in the header Authorization", i+1)
		}
	}
	return checkBudgets(s)
}

func checkBinding(b Binding) error {
	b = b.WithDefaults()
	_, err := netip.ParseAddr(b.Host)
	switch {
	case b.Scheme != "https" && b.Scheme != "http":
		return api.Errorf(api.KindInvalid, "scheme %.40q is neither https nor http", b.Scheme)
	case b.Host == "" || len(b.Host) > api.MaxEgressHost || strings.ContainsAny(b.Host, "*/:@ \x00") || !utf8.ValidString(b.Host):
		return api.Errorf(api.KindInvalid, "host %.80q is not a name", b.Host)
	case err == nil:
		return api.Errorf(api.KindInvalid, "host %.80q is an address; a name is needed, because a certificate is checked for it", b.Host)
	case b.Port < 1 || b.Port > 65535:
		return api.Errorf(api.KindInvalid, "port %d is out of range", b.Port)
	}
	if err := (api.AddEgressRules{Rules: []api.EgressRule{{Action: api.EgressAllow, Host: b.Host, Methods: b.Methods, Paths: b.Paths}}}).CheckBounds(); err != nil {
		return err
	}
	switch b.In.Kind {
	case InHeader, InQuery:
		if b.In.Name == "" || len(b.In.Name) > api.MaxLabelName || !utf8.ValidString(b.In.Name) || strings.ContainsAny(b.In.Name, " \t\r\n:\x00") {
			return api.Errorf(api.KindInvalid, "%.80q is not the name of a %s", b.In.Name, b.In.Kind)
		}
		switch strings.ToLower(b.In.Name) {
		case "host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer":
			if b.In.Kind == InHeader {
				return api.Errorf(api.KindInvalid, "the header %s cannot have a secret", b.In.Name)
			}
		}
	case InBasic:
		if b.In.Name != "" {
			return api.Errorf(api.KindInvalid, "basic authentication has no name")
		}
	default:
		return api.Errorf(api.KindInvalid, "place %.40q is none of header, query and basic", string(b.In.Kind))
	}
	if !slices.Contains([]Model{"", Anthropic, OpenAI, Gemini}, b.Model) {
		return api.Errorf(api.KindInvalid, "model %.40q is none of %s, %s and %s", string(b.Model), Anthropic, OpenAI, Gemini)
	}
	if b.Git != nil && b.Model != "" {
		return api.Errorf(api.KindInvalid, "a git repository is no model")
	}
	if b.Git != nil {
		return checkGit(*b.Git)
	}
	return nil
}

func checkGit(g Git) error {
	switch {
	case !strings.HasPrefix(g.Repository, "/") || len(g.Repository) > api.MaxEgressPath || strings.Contains(g.Repository, "//") ||
		strings.Contains(g.Repository+"/", "/../") || strings.Contains(g.Repository+"/", "/./") || strings.ContainsAny(g.Repository, "*?#\x00"):
		return api.Errorf(api.KindInvalid, "%.80q is not the path of a repository", g.Repository)
	case !g.Fetch && len(g.Push) == 0:
		return api.Errorf(api.KindInvalid, "git: neither fetch nor push is allowed")
	case len(g.Push) > api.MaxEgressPaths:
		return api.Errorf(api.KindInvalid, "git: %d patterns of refs; the maximum is %d", len(g.Push), api.MaxEgressPaths)
	}
	for _, p := range g.Push {
		if !strings.HasPrefix(p, "refs/") || len(p) > api.MaxEgressPath || strings.ContainsAny(p, " ~^:?[\\\x00") {
			return api.Errorf(api.KindInvalid, "git: %.80q is not a pattern of refs; it begins with refs/", p)
		}
	}
	return nil
}

package api

import (
	"strings"
	"unicode/utf8"
)

// Bounds on the strings and maps of a request that are stored with what it creates.
// They hold below every server. Sizes are in bytes.
const (
	// MaxLabels is the number of labels of a sandbox, which E2B's wire calls metadata.
	// A name has 1 to MaxLabelName bytes and a value at most MaxLabelValue; all names
	// and values together have at most MaxLabelBytes.
	MaxLabels     = 64
	MaxLabelName  = 256
	MaxLabelValue = 4 << 10
	MaxLabelBytes = 64 << 10
	// MaxEnvBytes bounds an environment: names, values and two bytes for each variable.
	MaxEnvBytes = 64 << 10
	// MaxArgsBytes bounds the arguments of a command, one byte for each counted with
	// them. Its record keeps at most MaxRecordedArgs bytes.
	MaxArgsBytes    = 1 << 20
	MaxRecordedArgs = 16 << 10
	// MaxPath bounds a path, MaxUser the name of a user, inside a sandbox.
	MaxPath = 4 << 10
	MaxUser = 256
	// MaxName bounds a name that a request refers to: a template, a backend, a model.
	// A model that replays a recording is named by a path.
	MaxName = 4 << 10
)

// CheckLabels refuses labels that are out of bounds: KindInvalid.
func CheckLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return Errorf(KindInvalid, "%d labels; the maximum is %d", len(labels), MaxLabels)
	}
	total := 0
	for name, value := range labels {
		switch {
		case name == "" || len(name) > MaxLabelName:
			return Errorf(KindInvalid, "label name %.40q has %d bytes; it must have 1 to %d", name, len(name), MaxLabelName)
		case len(value) > MaxLabelValue:
			return Errorf(KindInvalid, "label %.40q has a value of %d bytes; the maximum is %d", name, len(value), MaxLabelValue).
				WithHint("write large values to a file in the sandbox")
		}
		total += len(name) + len(value)
	}
	if total > MaxLabelBytes {
		return Errorf(KindInvalid, "the labels have %d bytes in total; the maximum is %d", total, MaxLabelBytes).
			WithHint("write large values to a file in the sandbox")
	}
	return nil
}

// CheckEnv refuses environment variables that are malformed or out of bounds:
// KindInvalid.
func CheckEnv(env map[string]string) error {
	total := 0
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return Errorf(KindInvalid, "environment variable %.40q is malformed", name)
		}
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return Errorf(KindInvalid, "environment variable %.40q is not UTF-8", name)
		}
		total += len(name) + len(value) + 2
	}
	if total > MaxEnvBytes {
		return Errorf(KindInvalid, "the environment has %d bytes; the maximum is %d", total, MaxEnvBytes).
			WithHint("write large values to a file in the sandbox")
	}
	return nil
}

// CheckName refuses a name that is longer than MaxName: KindInvalid. what says what it
// names.
func CheckName(what, name string) error {
	if len(name) > MaxName {
		return Errorf(KindInvalid, "the name of the %s has %d bytes; the maximum is %d", what, len(name), MaxName)
	}
	return nil
}

// CheckBounds refuses a request with a map or string that is out of bounds.
func (r CreateSandbox) CheckBounds() error {
	for what, name := range map[string]string{"isolation": r.Isolation, "template": r.Template, "expiry action": string(r.OnExpiry), "task": string(r.Task)} {
		if err := CheckName(what, name); err != nil {
			return err
		}
	}
	if err := CheckIDEPort(r.IDEPort); err != nil {
		return err
	}
	if err := CheckLabels(r.Labels); err != nil {
		return err
	}
	if r.Egress != nil {
		if err := r.Egress.CheckBounds(); err != nil {
			return err
		}
	}
	if err := CheckSecretGrants(r.Secrets); err != nil {
		return err
	}
	for _, g := range r.Secrets {
		if _, ok := r.Env[g.Variable()]; ok {
			return Errorf(KindInvalid, "the environment variable %.80q is set, and is the one of secret %s", g.Variable(), g.Name).
				WithHint("give the secret another variable: VARIABLE=%s", g.Name)
		}
	}
	return CheckEnv(r.Env)
}

// CheckBounds refuses a request with a map or string that is out of bounds.
func (r CreateTask) CheckBounds() error {
	for _, name := range []string{r.Model, r.Models.Planner, r.Models.Coder, r.Models.Debugger, r.Models.Large} {
		if err := CheckName("model", name); err != nil {
			return err
		}
	}
	if err := CheckName("recording", r.Record); err != nil {
		return err
	}
	if err := CheckSecretGrants(r.SetupSecrets); err != nil {
		return err
	}
	if r.SetupEgress != nil {
		if err := r.SetupEgress.CheckBounds(); err != nil {
			return err
		}
	}
	return r.Sandbox.CheckBounds()
}

// CheckBounds refuses a request with a list, map or string that is out of bounds.
func (r ExecRequest) CheckBounds() error {
	total := 0
	for _, a := range r.Args {
		total += len(a) + 1
	}
	if total > MaxArgsBytes {
		return Errorf(KindInvalid, "the arguments have %d bytes; the maximum is %d", total, MaxArgsBytes).
			WithHint("write them to a file in the sandbox and pass its name")
	}
	if len(r.Dir) > MaxPath {
		return Errorf(KindInvalid, "the working directory has %d bytes; the maximum is %d", len(r.Dir), MaxPath)
	}
	if len(r.User) > MaxUser {
		return Errorf(KindInvalid, "the name of the user has %d bytes; the maximum is %d", len(r.User), MaxUser)
	}
	if err := CheckName("tag", r.Tag); err != nil {
		return err
	}
	return CheckEnv(r.Env)
}

// RecordedArgs returns what a command's record keeps of its arguments: all of them and 0,
// or the first MaxRecordedArgs bytes and the size of all.
func RecordedArgs(args []string) (kept []string, total int64) {
	left := MaxRecordedArgs
	for i, a := range args {
		total += int64(len(a) + 1)
		if left < 0 {
			continue
		}
		if left -= len(a) + 1; left < 0 {
			kept = append(append(kept, args[:i]...), strings.ToValidUTF8(a[:len(a)+1+left], ""))
		}
	}
	if kept == nil {
		return args, 0
	}
	return kept, total
}

// Clip returns the first most bytes of a text, or fewer: a character that would be
// cut is left out.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

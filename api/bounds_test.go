package api

import (
	"fmt"
	"strings"
	"testing"
)

func labels(n, value int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprintf("label-%05d", i)] = strings.Repeat("v", value)
	}
	return out
}

func TestBounds(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		err error
		ok  bool
	}{
		"no labels":          {CheckLabels(nil), true},
		"most labels":        {CheckLabels(labels(MaxLabels, 100)), true},
		"longest name":       {CheckLabels(map[string]string{long(MaxLabelName): ""}), true},
		"longest value":      {CheckLabels(map[string]string{"a": long(MaxLabelValue)}), true},
		"one too many":       {CheckLabels(labels(MaxLabels+1, 1)), false},
		"no name":            {CheckLabels(map[string]string{"": "a"}), false},
		"long name":          {CheckLabels(map[string]string{long(MaxLabelName + 1): ""}), false},
		"long value":         {CheckLabels(map[string]string{"a": long(MaxLabelValue + 1)}), false},
		"sum":                {CheckLabels(labels(16, MaxLabelValue)), false}, // the names are above it
		"variables":          {CheckEnv(map[string]string{"A": long(MaxEnvBytes - 3)}), true},
		"too long variable":  {CheckEnv(map[string]string{"A": long(MaxEnvBytes - 2)}), false},
		"malformed variable": {CheckEnv(map[string]string{"A=": ""}), false},
		"NUL in variable":    {CheckEnv(map[string]string{"A": "\x00"}), false},
		"not UTF-8":          {CheckEnv(map[string]string{"A": "\xff"}), false},
		"template":           {CreateSandbox{Template: long(MaxName + 1)}.CheckBounds(), false},
		"isolation":          {CreateSandbox{Isolation: long(MaxName + 1)}.CheckBounds(), false},
		"task's labels":      {CreateTask{Sandbox: CreateSandbox{Labels: labels(MaxLabels+1, 1)}}.CheckBounds(), false},
		"task's model":       {CreateTask{Models: Models{Debugger: long(MaxName + 1)}}.CheckBounds(), false},
		"arguments":          {ExecRequest{Args: []string{long(MaxArgsBytes)}}.CheckBounds(), false},
		"directory":          {ExecRequest{Dir: long(MaxPath + 1)}.CheckBounds(), false},
		"user":               {ExecRequest{User: long(MaxUser + 1)}.CheckBounds(), false},
		"tag":                {ExecRequest{Tag: long(MaxName + 1)}.CheckBounds(), false},
		"plain command":      {ExecRequest{Args: []string{"true"}, Dir: "/", User: "root", Tag: "t"}.CheckBounds(), true},
	} {
		if c.ok && c.err != nil || !c.ok && KindOf(c.err) != KindInvalid {
			t.Errorf("%s: %v", name, c.err)
		}
		if c.err != nil && len(c.err.Error()) > 300 {
			t.Errorf("%s: the message has %d bytes", name, len(c.err.Error()))
		}
	}
}

func TestRecordedArgs(t *testing.T) {
	long := strings.Repeat("é", MaxRecordedArgs)
	for _, c := range []struct {
		args  []string
		kept  int
		total int64
	}{
		{nil, 0, 0},
		{[]string{"sh", "-c", "true"}, 3, 0},
		{[]string{strings.Repeat("a", MaxRecordedArgs-1)}, 1, 0},
		{[]string{strings.Repeat("a", MaxRecordedArgs)}, 1, MaxRecordedArgs + 1},
		{[]string{"echo", long, "more"}, 2, int64(len(long)) + 11},
	} {
		kept, total := RecordedArgs(c.args)
		n := 0
		for i, a := range kept {
			n += len(a)
			if !strings.HasPrefix(c.args[i], a) {
				t.Errorf("argument %d is not a prefix", i)
			}
		}
		if len(kept) != c.kept || total != c.total || n > MaxRecordedArgs {
			t.Errorf("%.40q: %d arguments of %d bytes, total %d", c.args, len(kept), n, total)
		}
	}
}

// A message that quotes a request is bounded whatever was in the request.
func TestMessageIsBounded(t *testing.T) {
	cause := fmt.Errorf("%s", strings.Repeat("é", MaxMessage))
	for name, err := range map[string]error{"Errorf": Errorf(KindInvalid, "no %w", cause), "AsError": AsError(cause)} {
		if n := len(err.Error()); n > MaxMessage || !strings.HasSuffix(err.Error(), "(truncated)") {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
}

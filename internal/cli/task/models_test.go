package task

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestModelFlag(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in   string
		all  string
		by   api.Models
		fail string
	}{
		{in: "offline", all: "offline"},
		{in: "a:b/c-4.1", all: "a:b/c-4.1"},
		{in: "replay:x.jsonl", all: "replay:" + filepath.Join(dir, "x.jsonl")},
		{in: "replay:/a/b=c.jsonl", all: "replay:/a/b=c.jsonl"},
		{in: "planner=small,coder=big", by: api.Models{Planner: "small", Coder: "big"}},
		{in: "offline,large=a:big", all: "offline", by: api.Models{Large: "a:big"}},
		{in: "planner=p, coder= c ", by: api.Models{Planner: "p", Coder: "c"}},
		{in: "debugger=replay:/x/../y,planner=p,coder=c", by: api.Models{Planner: "p", Coder: "c", Debugger: "replay:/y"}},
		{in: "painter=x", fail: `unknown role "painter"`},
		{in: "a,b", fail: "two models for all roles"},
		{in: "planner=a,planner=b", fail: "two models for the planner"},
		{in: "planner=", fail: "empty name"},
		{in: "a,", fail: "empty name"},
		{in: "=a", fail: "has no role"},
		{in: "replay:", fail: "has no file"},
	} {
		var m ModelNames
		err := m.UnmarshalText([]byte(c.in))
		if c.fail != "" {
			if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), c.fail) || api.HintOf(err) == "" && !strings.Contains(c.fail, "two models for the") {
				t.Errorf("%q: %v (%s)", c.in, err, api.HintOf(err))
			}
			continue
		}
		if err != nil || m.all != c.all || m.by != c.by {
			t.Errorf("%q: %+v %v", c.in, m, err)
		}
	}
}

// A small model is for the agent of a repository; the path of a recording is made absolute, as for --model.
func TestSmallModel(t *testing.T) {
	f := agentFlag{Small: "a:small"}
	if err := f.Model.UnmarshalText([]byte("a:main,large=a:big")); err != nil {
		t.Fatal(err)
	}
	if name, by, err := f.models(); err != nil || name != "a:main" || by != (api.Models{Large: "a:big", Small: "a:small"}) {
		t.Errorf("%q, %+v, %v", name, by, err)
	}
	f.Small = "replay:r.jsonl"
	if _, by, err := f.models(); err != nil || !strings.HasPrefix(by.Small, "replay:/") {
		t.Errorf("%+v, %v", by, err)
	}
	f.Small = "replay:"
	if _, _, err := f.models(); api.KindOf(err) != api.KindInvalid {
		t.Errorf("%v", err)
	}
	f.Small = ""
	if _, by, err := f.models(); err != nil || by != (api.Models{Large: "a:big"}) {
		t.Errorf("%+v, %v", by, err)
	}
}

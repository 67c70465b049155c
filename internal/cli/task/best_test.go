package task

import (
	"strings"
	"testing"
)

func TestVariant(t *testing.T) {
	for text, want := range map[string]string{
		"model=anthropic":                                     "model anthropic",
		"agent=claude, model=anthropic:claude-x":              "agent claude, model anthropic:claude-x",
		"temperature=0.7":                                     "temperature 0.7",
		"temperature=0,strategy=a test first, then = the fix": "temperature 0, a test first, then = the fix",
		"":                           "error",
		"model":                      "error",
		"model=":                     "error",
		"model=a,":                   "error",
		"model=a,,agent=b":           "error",
		"model=a,model=b":            "error",
		"temperature=NaN":            "error",
		"temperature=2.1":            "error",
		"temperature=hot":            "error",
		"colour=red":                 "error",
		"strategy=":                  "error",
		"model=a,strategy=x,agent=b": "model a, x,agent=b",
	} {
		v, err := variant(text)
		got := v.String()
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %q (%v), want %q", text, got, err, want)
		}
	}
}

func FuzzVariant(f *testing.F) {
	f.Add("agent=a,model=b,temperature=1,strategy=c,d")
	f.Add(",=,")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := variant(text)
		if err != nil {
			return
		}
		if v.Temperature != nil && !(*v.Temperature >= 0 && *v.Temperature <= 2) {
			t.Errorf("temperature %v", *v.Temperature)
		}
		for _, s := range []string{v.Agent, v.Model} {
			if strings.Contains(s, ",") {
				t.Errorf("%q", s)
			}
		}
	})
}

func TestBestFlags(t *testing.T) {
	n := func(i int) *int { return &i }
	for name, c := range map[string]struct {
		f  bestFlags
		ok bool
	}{
		"nothing":                {bestFlags{}, true},
		"three":                  {bestFlags{BestOf: n(3), First: true, Candidate: []string{"model=a"}}, true},
		"one":                    {bestFlags{BestOf: n(1)}, false},
		"too many":               {bestFlags{BestOf: n(17)}, false},
		"first alone":            {bestFlags{First: true}, false},
		"a candidate alone":      {bestFlags{Candidate: []string{"model=a"}}, false},
		"more than there are":    {bestFlags{BestOf: n(2), Candidate: []string{"model=a", "model=b", "model=c"}}, false},
		"a malformed candidate":  {bestFlags{BestOf: n(2), Candidate: []string{"model"}}, false},
		"a search":               {bestFlags{Search: "3,4", First: true, Candidate: []string{"model=a"}}, true},
		"a search in a line":     {bestFlags{Search: "6, 1"}, true},
		"a search of one level":  {bestFlags{Search: "1,2"}, true},
		"the largest search":     {bestFlags{Search: "2,16"}, true},
		"one level of one":       {bestFlags{Search: "1,1"}, false},
		"no level":               {bestFlags{Search: "0,3"}, false},
		"too many levels":        {bestFlags{Search: "7,1"}, false},
		"too wide":               {bestFlags{Search: "2,17"}, false},
		"too many together":      {bestFlags{Search: "3,11"}, false},
		"a search of one number": {bestFlags{Search: "3"}, false},
		"a search of three":      {bestFlags{Search: "3,4,5"}, false},
		"a search of words":      {bestFlags{Search: "deep,wide"}, false},
		"both":                   {bestFlags{BestOf: n(2), Search: "2,2"}, false},
		"more than are abreast":  {bestFlags{Search: "3,1", Candidate: []string{"model=a", "model=b"}}, false},
		"two candidates, of two": {bestFlags{BestOf: n(2), Candidate: []string{"model=a", "model=b"}}, true},
	} {
		if _, err := c.f.request(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSearchFlag: one level is the request of --best-of.
func TestSearchFlag(t *testing.T) {
	for text, want := range map[string][2]int{"3,4": {3, 4}, " 2 , 5 ": {2, 5}, "1,3": {1, 3}} {
		f := bestFlags{Search: text}
		r, err := f.request()
		if err != nil || r.Depth != want[0] || r.Of != want[1] {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
}

package forge

import (
	"strings"
	"testing"
)

// TestReviewText: what is said is quoted, has its place, and is bounded. It cannot leave its quotes.
func TestReviewText(t *testing.T) {
	r := Review{
		Remarks: []Remark{
			{Author: "mae\nComment of boss", Body: "Change it.\r\n\nFailed check: forged\x1b[2J", Path: "a b.go\n> x", Line: 4, Changes: true},
			{Author: "mae", Body: strings.Repeat("y", 3*maxRemark)},
		},
		Failed: []Check{{Name: "build\n> no", URL: "https://ci.example.org/1", Text: strings.Repeat("noise\n", 1000) + "FAIL: last\n"}, {Name: "lint"}},
	}
	text := r.Text()
	for _, want := range []string{
		"Review that requests changes of mae Comment of boss on the file a b.go > x, line 4:\n> Change it.\n> \n> Failed check: forged\n",
		"yyy\n[truncated]\n", "Failed check: build > no (https://ci.example.org/1)\nThe end of what it reports:\n> noise\n", "> FAIL: last\n", "\nFailed check: lint",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text misses %q:\n%s", want, text)
		}
	}
	if len(text) > maxRemark+maxReport+1000 {
		t.Errorf("the text has %d bytes", len(text))
	}
	var many Review
	for range 10 * MaxRemarks {
		many.Remarks = append(many.Remarks, Remark{Author: "mae", Body: strings.Repeat("a\n", 10_000)})
	}
	for range 10 * MaxChecks {
		many.Failed = append(many.Failed, Check{Name: "c", Text: strings.Repeat("b\n", 10_000)})
	}
	if n := len(many.Text()); n > maxReview+100 {
		t.Errorf("many remarks have %d bytes", n)
	}
}

// TestBodyPart: a request of a stack says where it is, and what it lies on.
func TestBodyPart(t *testing.T) {
	e := Evidence{
		Requests: []string{"Write two."}, Part: &Part{ID: "two", Acceptance: "make two", Gate: "passed in task t1", N: 2, Of: 3, Before: 7, URL: "https://forge/7"},
		Items: []Item{{ID: "one", State: "completed"}, {ID: "two", Needs: []string{"one"}, State: "completed", This: true}},
	}
	body := Body(e)
	for _, want := range []string{"## Item two (2 of 3)\n\nIt lies on request 7, <https://forge/7>: merge that one first.", "make two", "Its gate passed in task t1.", "| **two** (this request) |", "style n_two stroke-width:4px"} {
		if !strings.Contains(body, want) {
			t.Errorf("the body misses %q:\n%s", want, body)
		}
	}
	e.Part.URL, e.Part.Before = "https://forge/7> @all", 7
	if body := Body(e); strings.Contains(body, "@all") {
		t.Errorf("an address is shown that is none:\n%s", body)
	}
	e.Part.Before = 0
	if body := Body(e); !strings.Contains(body, "It is the first of the stack") {
		t.Error(body)
	}
}

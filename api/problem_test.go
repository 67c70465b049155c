package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestProblems(t *testing.T) {
	for _, k := range Kinds {
		p := ProblemOf(fmt.Errorf("outer: %w", Errorf(k, "inner %d", 1).WithHint("do this")), 0)
		if p.Status != k.HTTPStatus() || p.Title == "" || p.Detail != "outer: inner 1" || p.Hint != "do this" || strings.ContainsAny(p.Type, "_ ") {
			t.Errorf("%s: %+v", k, p)
		}
		b, err := json.Marshal(p)
		var back Problem
		if err == nil {
			err = json.Unmarshal(b, &back)
		}
		if e := back.Err(); err != nil || e.Kind != k || e.Error() != "outer: inner 1" || e.Hint != "do this" {
			t.Errorf("%s came back as %+v, %v", k, e, err)
		}
	}
	ended := Errorf(KindUnavailable, "x has ended")
	ended.Gone = true
	if p := ProblemOf(fmt.Errorf("outer: %w", ended), 0); p.Status != http.StatusGone || !p.Err().Gone {
		t.Errorf("what has ended for good: %+v", p)
	}
	if p := ProblemOf(Errorf(KindUnavailable, "x"), http.StatusServiceUnavailable); p.Status != 503 || p.Title != "Service Unavailable" {
		t.Errorf("with another status: %+v", p)
	}
}

package policy

import (
	"slices"
	"strings"
)

// request is a request as rules are matched with it. Its path is decoded when a rule needs it.
type request struct {
	method, path string
	decoded      string
	state        int8 // of decoded
	steps        int  // that are left, see maxSteps
}

const (
	pathUnread int8 = iota
	pathPlain
	pathAmbiguous
)

// match reports whether the conditions of a rule match, or why that cannot be said for sure.
func (q *request) match(r *rule) (matched bool, unclear string) {
	if r.methods != nil {
		// Some servers read "post" as POST.
		if !isMethod(q.method) {
			return false, ReasonRequest
		}
		if !slices.Contains(r.methods, q.method) {
			return false, ""
		}
	}
	if r.paths == nil {
		return true, ""
	}
	if q.state == pathUnread {
		path, _, _ := strings.Cut(q.path, "?")
		decoded, ok := plainPath(path)
		if q.decoded, q.state, q.steps = decoded, pathPlain, maxSteps; !ok {
			q.state = pathAmbiguous
		}
	}
	if q.state == pathAmbiguous {
		return false, ReasonPath
	}
	for _, p := range r.paths {
		if matched := matchPath(p, q.decoded, &q.steps); q.steps < 0 {
			return false, ReasonPath
		} else if matched {
			return true, ""
		}
	}
	return false, ""
}

package audit

import (
	"context"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
)

// Answer answers an open question of an account, of any account for "", which is the operator,
// and releases its connections. If remember is set, a rule is added to the policy of the sandbox
// first; if that fails, the question remains open.
//
// KindNotFound if there is no such question for this account, for example because it has
// expired; KindConflict if another answer is being stored, or if the question ended while this
// one was; KindInvalid if the action is unknown, or if no rule can be made of the question.
func (a *Asks) Answer(ctx context.Context, account, id string, action api.EgressAction, remember bool) error {
	if action != api.EgressAllow && action != api.EgressDeny {
		return api.Errorf(api.KindInvalid, "unknown action %.64q", action).WithHint("answer allow or deny")
	}
	q, err := a.claim(account, id)
	if err != nil {
		return err
	}
	reason := "answered by the operator"
	if account != "" {
		reason = "answered by account " + account
	}
	if remember {
		if err := a.remember(ctx, q.Decision, action); err != nil {
			a.unclaim(q)
			return err
		}
		reason += ", and added to the policy"
	}
	if !a.finish(q, action, reason) {
		e := api.Errorf(api.KindConflict, "question %s ended before the answer was stored", id)
		if remember {
			e = e.WithHint("the rule was added to the policy and applies to new connections")
		}
		return e
	}
	if action == api.EgressDeny && !remember { // a rule can be changed at once
		a.stand(q.subject)
	}
	return nil
}

// claim returns a question for one answer at a time.
func (a *Asks) claim(account, id string) (*question, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.open[id]
	if q == nil || account != "" && q.Decision.Account != account {
		return nil, api.Errorf(api.KindNotFound, "unknown question %.64q", id).WithHint("it may have expired or been answered")
	}
	if q.answering {
		return nil, api.Errorf(api.KindConflict, "question %s is being answered", id)
	}
	q.answering = true
	return q, nil
}

// unclaim lets a question be answered again, unless its connections have ended meanwhile.
func (a *Asks) unclaim(q *question) {
	a.mu.Lock()
	q.answering = false
	a.mu.Unlock()
	a.finishIf(q, q.abandoned, api.EgressDeny, "the connection ended before an answer")
}

// stand lets a denial answer the same question for a while.
func (a *Asks) stand(s subject) {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.denied) >= maxDenials {
		for s, until := range a.denied {
			if !now.Before(until) {
				delete(a.denied, s)
			}
		}
	}
	if len(a.denied) < maxDenials {
		a.denied[s] = now.Add(denialStands)
	}
}

// rememberTimeout is the timeout of Remember.
const rememberTimeout = 30 * time.Second

func (a *Asks) remember(ctx context.Context, d api.EgressDecision, action api.EgressAction) error {
	rule, err := ruleOf(d, action)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, rememberTimeout)
	defer cancel()
	return a.cfg.Remember(ctx, d.Sandbox, rule)
}

// ruleOf returns the rule that allows or denies exactly what a question was about. A sandbox
// chooses the text of its requests, so text that a rule would read as a pattern is refused.
func ruleOf(d api.EgressDecision, action api.EgressAction) (api.EgressRule, error) {
	r := api.EgressRule{Action: action, Host: d.Host, Ports: strconv.Itoa(d.Port), Class: d.Class, Source: "ask"}
	if d.Port == 0 { // a name alone: the default ports
		r.Ports = ""
	}
	if d.Method != "" {
		r.Methods = []string{d.Method}
	}
	if d.Path != "" {
		r.Paths = []string{d.Path}
	}
	if !nameable(d.Host) || !literal(d.Method) || !literal(d.Path) {
		return r, api.Errorf(api.KindInvalid, "no rule can be made of the question about %s: its path has characters with a meaning in rules", d.Host).
			WithHint("answer without remembering, or change the policy of the sandbox")
	}
	return r, nil
}

// literal reports whether text has only characters of methods and paths that no rule gives a
// meaning. Text that sanitize changed has others.
func literal(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._~%!$&'()+;=:@-", r)
	})
}

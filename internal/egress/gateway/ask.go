package gateway

import (
	"context"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/egress/policy"
)

// maxQuestions is the maximum number of questions of a sandbox that wait for a person.
const maxQuestions = 16

// question is what a person is asked. Equal questions at the same time are one.
type question struct {
	policy.Target
	op, method, path string
}

// answer is a question that waits.
type answer struct {
	done    chan struct{}
	action  api.EgressAction // final once done is closed
	waiting int              // connections; the question is withdrawn when none is left
	cancel  context.CancelFunc
}

// questions are those of a session.
type questions struct {
	mu   sync.Mutex
	open map[question]*answer
}

// close ends a question, so that an equal one is a new question. The caller holds mu.
func (qs *questions) close(q question, a *answer) {
	if qs.open[q] == a {
		delete(qs.open, q)
	}
}

// ask asks a person. It returns nil if it was allowed.
func (s *Session) ask(ctx context.Context, q question, v policy.Verdict) error {
	if s.cfg.Asker == nil {
		return s.refusal(v, q.Target)
	}
	qs := &s.questions
	qs.mu.Lock()
	a := qs.open[q]
	if a == nil {
		if len(qs.open) >= maxQuestions {
			qs.mu.Unlock()
			r := s.refusal(v, q.Target)
			r.Reason = "no rule matches, and too many questions wait for a person"
			return r
		}
		var actx context.Context
		a = &answer{done: make(chan struct{})}
		actx, a.cancel = context.WithTimeout(s.ctx, api.EgressAskTimeout)
		qs.open[q] = a
		s.all.Go(func() { s.wait(actx, q, a, v) })
	}
	a.waiting++
	qs.mu.Unlock()
	defer func() {
		qs.mu.Lock()
		defer qs.mu.Unlock()
		if a.waiting--; a.waiting == 0 {
			a.cancel()
			qs.close(q, a)
		}
	}()
	select {
	case <-a.done:
	case <-ctx.Done():
		return errClosed
	}
	if a.action == api.EgressAllow {
		return nil
	}
	r := s.refusal(v, q.Target)
	r.Reason = "a person was asked and did not allow it"
	return r
}

// wait waits for the answer to a question.
func (s *Session) wait(ctx context.Context, q question, a *answer, v policy.Verdict) {
	defer a.cancel()
	d := api.EgressDecision{
		At: s.cfg.Now(), Sandbox: s.peer.Sandbox, Task: s.peer.Task, Account: s.peer.Account,
		Result: api.EgressWaiting, Op: q.op, Host: q.Host, Port: q.Port, Class: v.Class, Method: q.method, Path: q.path,
		Reason: v.Reason, Hint: s.refusal(v, q.Target).Hint,
	}
	if s.peer.Commands != nil {
		d.Commands = s.peer.Commands()
	}
	s.cfg.Recorder.Record(d)
	action := s.cfg.Asker.Ask(ctx, d)
	s.questions.mu.Lock()
	defer s.questions.mu.Unlock()
	s.questions.close(q, a)
	a.action = action
	close(a.done)
}

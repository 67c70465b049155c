package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// asker is a person.
type asker struct {
	asked   chan api.EgressDecision
	answers chan api.EgressAction
	ended   chan error
}

func newAsker() *asker {
	return &asker{make(chan api.EgressDecision, 64), make(chan api.EgressAction), make(chan error, 64)}
}

func (a *asker) Ask(ctx context.Context, d api.EgressDecision) api.EgressAction {
	a.asked <- d
	select {
	case action := <-a.answers:
		a.ended <- nil
		return action
	case <-ctx.Done():
		a.ended <- ctx.Err()
		return api.EgressDeny
	}
}

func TestAsk(t *testing.T) {
	person := newAsker()
	r := newRig(t, func(c *Config) { c.Asker = person })
	port := r.tcp()
	p := rules(allow("other.example", port, api.EgressTCP))
	p.Ask = true
	s, l := r.serve(p)
	if a := ask(t, l.open(), envd.EgressRequest{Op: envd.EgressResolve, Name: "example.org"}); !a.OK {
		t.Error("a name that a person may allow does not resolve", a)
	}
	// Two connections share a question. The answer becomes a rule, as the daemon does it.
	var waiting []net.Conn
	for range 2 {
		c := l.open()
		fmt.Fprintf(c, `{"op":"connect","name":"example.org","port":%d}`+"\n", port)
		waiting = append(waiting, c)
	}
	d := <-person.asked
	if d.Result != api.EgressWaiting || d.Host != "example.org" || d.Port != port || d.Op != opConnect || d.Commands[0] != "npm install" {
		t.Errorf("%+v", d)
	}
	r.records.op(t, opConnect, api.EgressWaiting)
	until(t, "both wait", func() bool {
		s.questions.mu.Lock()
		defer s.questions.mu.Unlock()
		for _, a := range s.questions.open {
			return a.waiting == 2
		}
		return false
	})
	p.Rules = append(p.Rules, allow("example.org", port, api.EgressTCP))
	if err := s.Apply(p); err != nil {
		t.Fatal(err)
	}
	person.answers <- api.EgressAllow
	for _, c := range waiting {
		if a := readAnswer(t, c); !a.OK {
			t.Errorf("%+v", a)
		}
	}
	if len(person.asked) != 0 {
		t.Error("asked twice")
	}

	// Denied.
	c := l.open()
	fmt.Fprintf(c, `{"op":"connect","name":"evil.example","port":%d}`+"\n", port)
	<-person.asked
	person.answers <- api.EgressDeny
	if a := readAnswer(t, c); a.Error != envd.EgressErrDenied {
		t.Errorf("%+v", a)
	}
	r.records.find(t, "denied by a person", func(d api.EgressDecision) bool { return d.Reason == "a person was asked and did not allow it" })

	// The guest does not wait any longer.
	for len(person.ended) > 0 {
		<-person.ended
	}
	c = l.open()
	fmt.Fprintf(c, `{"op":"connect","name":"left.example","port":%d}`+"\n", port)
	<-person.asked
	c.Close()
	if err := <-person.ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestAskWithoutRule checks a person's answer that did not become a rule: it holds for the
// connection, also when the policy changes.
func TestAskWithoutRule(t *testing.T) {
	person := newAsker()
	r := newRig(t, func(c *Config) { c.Asker = person })
	r.names.addrs["example.org"] = "203.0.113.1"
	port := 9
	p := rules()
	p.Ask = true
	s, l := r.serve(p)
	c := l.open()
	fmt.Fprintf(c, `{"op":"connect","name":"example.org","port":%d}`+"\n", port)
	<-person.asked
	person.answers <- api.EgressAllow
	if a := readAnswer(t, c); !a.OK {
		t.Fatal(a)
	}
	if err := s.Apply(p); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	var ne net.Error
	if _, err := c.Read(make([]byte, 1)); !errors.As(err, &ne) || !ne.Timeout() {
		t.Errorf("the connection ended: %v", err)
	}
	p.Ask = false
	if err := s.Apply(p); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(long))
	ended(t, c)
}

func TestTooManyQuestions(t *testing.T) {
	person := newAsker()
	r := newRig(t, func(c *Config) { c.Asker = person })
	p := rules()
	p.Ask = true
	s, l := r.serve(p)
	for i := range maxQuestions {
		fmt.Fprintf(l.open(), `{"op":"connect","name":"n%d.example","port":443}`+"\n", i)
		<-person.asked
	}
	if _, a := l.connect("more.example", 443); a.Error != envd.EgressErrDenied {
		t.Errorf("%+v", a)
	}
	s.Close()
	for range maxQuestions {
		<-person.ended
	}
}

package resolver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"hortus.dev/api/envd"
)

// idleTimeout is how long a stream is kept for the next question.
const idleTimeout = 10 * time.Second

// Stream is a stream to the host.
type Stream interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
}

// asker asks the host about names, on as many streams as the host has for it. Other questions wait for a turn.
type asker struct {
	open  func(context.Context) (Stream, error)
	turns chan struct{} // one value for each question that is being asked

	mu   sync.Mutex
	idle []*questionStream
}

// questionStream is a stream on which questions are asked, one after the other.
type questionStream struct {
	s      Stream
	br     *bufio.Reader
	expire *time.Timer
}

// ask returns the host's answer about a name. ctx must have a deadline.
func (a *asker) ask(ctx context.Context, name string) (envd.EgressAnswer, error) {
	select {
	case a.turns <- struct{}{}:
		defer func() { <-a.turns }()
	case <-ctx.Done():
		return envd.EgressAnswer{}, ctx.Err()
	}
	for {
		k, used, err := a.take(ctx)
		if err != nil {
			return envd.EgressAnswer{}, err
		}
		answer, err := k.ask(ctx, name)
		if err == nil {
			a.put(k)
			return answer, nil
		}
		k.s.Close()
		// A stream that was kept may have ended meanwhile.
		if !used || ctx.Err() != nil {
			return envd.EgressAnswer{}, err
		}
	}
}

// take returns a stream, and whether it was used before.
func (a *asker) take(ctx context.Context) (_ *questionStream, used bool, err error) {
	a.mu.Lock()
	if n := len(a.idle); n > 0 {
		k := a.idle[n-1]
		a.idle = a.idle[:n-1]
		a.mu.Unlock()
		k.expire.Stop()
		return k, true, nil
	}
	a.mu.Unlock()
	s, err := a.open(ctx)
	if err != nil {
		return nil, false, err
	}
	return &questionStream{s: s, br: bufio.NewReaderSize(s, envd.MaxEgressLine)}, false, nil
}

// put keeps a stream for the next question.
func (a *asker) put(k *questionStream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle = append(a.idle, k)
	k.expire = time.AfterFunc(idleTimeout, func() { a.drop(k) })
}

// drop closes a stream if nobody has taken it.
func (a *asker) drop(k *questionStream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, other := range a.idle {
		if other == k {
			a.idle = append(a.idle[:i], a.idle[i+1:]...)
			k.s.Close()
			return
		}
	}
}

// close closes the streams that are kept.
func (a *asker) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.idle {
		k.expire.Stop()
		k.s.Close()
	}
	a.idle = nil
}

func (k *questionStream) ask(ctx context.Context, name string) (answer envd.EgressAnswer, err error) {
	due, _ := ctx.Deadline()
	k.s.SetDeadline(due)
	line, err := json.Marshal(envd.EgressRequest{Op: envd.EgressResolve, Name: name})
	if err != nil {
		return answer, err
	}
	if _, err := k.s.Write(append(line, '\n')); err != nil {
		return answer, err
	}
	if line, err = k.br.ReadSlice('\n'); err != nil {
		return answer, err
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return answer, err
	}
	if k.br.Buffered() > 0 {
		return answer, errors.New("the host sent more than an answer")
	}
	return answer, nil
}

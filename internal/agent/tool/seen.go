package tool

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"hortus.dev/internal/agent/loop"
)

// fewBytes is the shortest text of a file that is not shown again.
const fewBytes = 1000

// seen are the files that the model has read or written, by cleaned path.
type seen struct {
	mu    sync.Mutex
	files map[string]sight
}

// sight is what a model has read of a file.
type sight struct {
	sum      [sha256.Size]byte // of the content
	from, to int64             // the lines that results show; to is 0 for none
	pointed  bool              // the last result pointed at an earlier one
}

func (s *seen) add(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		s.files = map[string]sight{}
	}
	s.files[path] = s.files[path]
}

func (s *seen) has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.files[path]
	return ok
}

// again reports whether results show these lines of the content already. It is true once: a model that asks again after that
// reads them.
func (s *seen) again(path string, content []byte, from, to int64) bool {
	sum := sha256.Sum256(content)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[path]
	if f.sum != sum {
		f = sight{sum: sum}
	}
	f.pointed = !f.pointed && f.to > 0 && f.from <= from && to <= f.to
	if !f.pointed {
		if f.to > 0 && from <= f.to+1 && f.from <= to+1 {
			from, to = min(from, f.from), max(to, f.to)
		}
		f.from, f.to = from, to
	}
	s.files[path] = f
	return f.pointed
}

// forget forgets what results show: they may be removed from the history.
func (s *seen) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range s.files {
		s.files[path] = sight{}
	}
}

// once replaces the lines of a file by a reference, if an earlier result shows them.
func (s *seen) once(w where, content []byte, res loop.Result, from, last int64) loop.Result {
	if len(res.Text) < fewBytes || !s.again(w.abs, content, from, last) {
		return res
	}
	return loop.Result{
		Text:  fmt.Sprintf("[%s did not change: an earlier result shows lines %d to %d. To read them here, call view again.]", w.say, from, last),
		Short: res.Short + ", shown before",
	}
}

// maxPrinted is how many outputs of commands are compared.
const maxPrinted = 50

// printed are the last long outputs of commands, by their sums. Its methods are for the goroutine of the calls.
type printed struct {
	last []output
}

type output struct {
	sum     [sha256.Size]byte
	line    string // the command
	pointed bool   // the last result with this output pointed at an earlier one
}

func (p *printed) forget() { p.last = nil }

// once replaces a long output by a reference, if an earlier result shows the same. If the output comes again after that, it is
// shown.
func (p *printed) once(line, text string) string {
	if len(text) < fewBytes {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	for i := range p.last {
		if o := &p.last[i]; o.sum == sum {
			if o.pointed = !o.pointed; o.pointed {
				return fmt.Sprintf("[same output as the earlier command: %s]\n", o.line)
			}
			o.line = oneLine(line, 80)
			return text
		}
	}
	p.last = append(p.last, output{sum: sum, line: oneLine(line, 80)})
	if n := len(p.last) - maxPrinted; n > 0 {
		p.last = p.last[n:]
	}
	return text
}

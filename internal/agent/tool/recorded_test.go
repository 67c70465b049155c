package tool_test

// recordedRun is what testdata/trajectories.json has of one recorded run of mini-swe-agent: sizes in tokens as the model's
// vendor counted them, numbers of lines, and kinds. It has no text of the run. A text of n tokens is replayed as 4n bytes.
type recordedRun struct {
	Name, Model, Scaffold, Source, Licence string
	// Most bounds the ratio, and MostEvery that of every step, so that a change that costs tokens fails.
	Most, MostEvery float64
	// Template is the size of the system message, of the instance template without the request, and of the tool's
	// description, in bytes; Request is that of the request, in tokens.
	Template, Request int
	// CallFrame and ResultFrame are the tokens that the vendor's protocol adds to a call and to a result.
	CallFrame, ResultFrame int
	// Root is the number of files at the root of the repository, Dirs the number of directories in each directory there.
	Root  int
	Dirs  []int
	Files map[string]struct{ Lines, Tokens int }
	Steps []recordedStep
}

// recordedStep is one answer, with one command, and its output.
type recordedStep struct {
	// Kind is shell, list, view, search, edit, write (a file, and a command that runs it), patch (a file with the changes,
	// which only mini-swe-agent wants) or submit.
	Kind string
	// Prompt is what was sent for the answer, Say its text, Call its command and Out the output, all in tokens.
	Prompt, Say, Call, Out int
	Lines, Exit            int // of the output
	File                   string
	From, To               int
	Numbered               bool // the command numbered the lines
	At, New                int  // the changed line of File, and the tokens that replace it
	Sub                    bool // of a directory below the root
	One                    bool // in one file: the output has no paths
	Same                   int  // the number of the step whose output it repeats, from 1; 0 for none
}

// What frames the output of a command in mini-swe-agent, and from what length on it is cut to two halves.
const (
	miniFrame = len("<returncode>0</returncode>\n<output>\n</output>")
	miniCall  = len(`bash{"command":""}`)
	miniMost  = 10_000
	miniCut   = 560 // the advice and the marks around the halves
)

const token = 4 // bytes

// weight is what requests had, by part, in tokens.
type weight struct {
	requests, total, again, last int
	parts                        map[string]int
	// dear is what is to be added if the number of a line costs two tokens, in bytes. In the recorded runs it costs 2.0, as
	// seven bytes; what it costs without the spaces depends on the tokenizer.
	dear int
}

func (w *weight) add(parts map[string]int) {
	n := 0
	for k, v := range parts {
		n += v
		w.parts[k] += v
	}
	w.requests++
	w.total, w.again, w.last = w.total+n, w.again+w.last, n
}

// cost counts a token that the request before had too as a tenth.
func (w *weight) cost() float64 { return float64(w.total-w.again) + 0.1*float64(w.again) }

// linearly adds up what mini-swe-agent sends: its whole history with every answer.
func (r *recordedRun) linearly() *weight {
	w := &weight{parts: map[string]int{}}
	parts, numbers := map[string]int{"instructions": (r.Template + token - 1) / token, "request": r.Request}, 0
	for _, s := range r.Steps {
		w.add(parts)
		w.dear += numbers
		out := s.Out * token
		if s.Numbered {
			out += 7 * s.Lines
			numbers += (2*token - 7) * s.Lines
		}
		if out > miniMost {
			out = miniMost + miniCut
		}
		parts["said"] += s.Say
		parts["calls"] += r.CallFrame + miniCall/token + s.Call
		parts["results"] += r.ResultFrame + (miniFrame+out)/token
	}
	return w
}

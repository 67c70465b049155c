package repair

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/platform/lazyregexp"
)

// Agent repairs repositories. It is read-only after New and safe for several goroutines.
type Agent struct {
	limit effort
	// untraced leaves out the trace of the failing tests.
	untraced bool
	// workspace is a directory that may have a read-only mount, and view is that mount.
	workspace, view string
}

// New returns an agent with the default limits.
func New() *Agent { return &Agent{limit: maxEffort, workspace: workspaceDir, view: viewDir} }

// session is one request. It holds nothing between two answers: each answer replays the
// history from its beginning, with the same decisions, and asks for what comes next.
type session struct {
	agent *Agent
	h     *history
	brief brief
}

// brief is what the first message asks for.
type brief struct {
	request, gate string
}

const gateLine = "Gate command: "

// Generate answers a request that has tools. Errors: api.KindDeclined for a request that is
// neither a repair nor a renaming, or that lacks a tool or the gate's command.
func (a *Agent) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	if err := ctx.Err(); err != nil {
		return model.Response{}, err
	}
	b := readBrief(req.Messages)
	if err := b.beyond(req.Tools); err != nil {
		return model.Response{}, err
	}
	s := &session{agent: a, h: &history{messages: req.Messages}, brief: b}
	s.run()
	return s.h.answer(deltas), nil
}

// Accepts returns nil if the agent would work on a request with these messages and tools,
// and otherwise the error of Generate.
func Accepts(messages []model.Message, tools []model.Tool) error {
	return readBrief(messages).beyond(tools)
}

// run goes through the work until it asks for something that has no answer yet.
func (s *session) run() {
	if from, to := renaming(s.brief.request); from != "" {
		s.rename(from, to)
	} else {
		s.repair()
	}
	// A message after its last word may say that the gate failed, or something else: it
	// has no other edit, whatever the reason is.
	for !s.h.waits() {
		s.finish("Nothing more was changed.", "the offline model has no further edit to try; it repairs small defects only")
	}
}

// finish says the last word. What follows it, if anything, is the next round.
func (s *session) finish(summary, blocked string) {
	in := map[string]any{"summary": summary + " (" + honesty + ")"}
	if blocked != "" {
		in["blocked"] = blocked
	}
	s.h.ask("", call("finish", in))
}

const honesty = "offline model: heuristics and trial runs, no understanding of the program; review the change"

// history is the conversation, read from its beginning.
type history struct {
	messages []model.Message
	at       int // the next message to read
	step     int
	say      string
	pending  []model.Call
}

// waits reports whether something was requested that has no answer yet.
func (h *history) waits() bool { return h.pending != nil }

func call(name string, input map[string]any) model.Call {
	b, err := json.Marshal(input)
	if err != nil {
		b = []byte("{}") // strings and numbers always encode
	}
	return model.Call{Name: name, Input: b}
}

// reShown is a result that refers to an earlier one instead of showing the same again.
var reShown = lazyregexp.New(`^\[\S.* did not change: an earlier result shows lines |^\[same output as the earlier command: `)

// ask uses tools and gives what they said. It is false while there is no answer. A call whose result refers to an earlier one is
// made again, which shows it.
// A history that holds something else than what would be asked here (it was
// shortened, or is another model's) is gone over: its calls are not counted.
func (h *history) ask(say string, calls ...model.Call) ([]string, bool) {
	if h.waits() {
		return nil, false
	}
	h.step++
	results, times := make([]string, len(calls)), 0
	for h.at < len(h.messages) {
		msg := h.messages[h.at]
		h.at++
		if msg.Role != model.RoleAssistant || !sameCalls(msg.Calls, calls) {
			continue
		}
		for ; h.at < len(h.messages) && h.messages[h.at].Role != model.RoleAssistant; h.at++ {
			for i, c := range msg.Calls {
				if m := h.messages[h.at]; m.Role == model.RoleTool && m.CallID == c.ID && (results[i] == "" || reShown.MatchString(results[i])) {
					results[i] = m.Text
				}
			}
		}
		if times++; times > 1 || !slices.ContainsFunc(results, reShown.MatchString) {
			return results, true
		}
	}
	for i := range calls {
		calls[i].ID = "offline-" + strconv.Itoa(h.step) + "-" + strconv.Itoa(i+1)
		if times > 0 {
			calls[i].ID += "-again"
		}
	}
	h.say, h.pending = say, calls
	return nil, false
}

// maxAtOnce bounds the calls of one answer.
const maxAtOnce = 16

// each requests any number of calls, some at a time.
func (h *history) each(say string, calls []model.Call) ([]string, bool) {
	var results []string
	for len(calls) > 0 {
		n := min(len(calls), maxAtOnce)
		part, ok := h.ask(say, calls[:n]...)
		if !ok {
			return nil, false
		}
		results, calls = append(results, part...), calls[n:]
	}
	return results, true
}

func sameCalls(a, b []model.Call) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		var x, y any
		if a[i].Name != b[i].Name || json.Unmarshal(a[i].Input, &x) != nil || json.Unmarshal(b[i].Input, &y) != nil || !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}

// answer is what the history waits for.
func (h *history) answer(deltas func(model.Delta)) model.Response {
	msg := model.Message{Role: model.RoleAssistant, Text: h.say, Calls: h.pending}
	if deltas != nil {
		if h.say != "" {
			deltas(model.Delta{Text: h.say})
		}
		for _, c := range h.pending {
			deltas(model.Delta{Call: &model.Call{ID: c.ID, Name: c.Name}})
			deltas(model.Delta{Call: &c})
		}
	}
	return model.Response{Message: msg, Stop: model.StopTools, Usage: api.Usage{Requests: 1}}
}

// readBrief finds the request and the gate in the first message.
func readBrief(messages []model.Message) brief {
	var b brief
	for _, m := range messages {
		if m.Role != model.RoleUser {
			continue
		}
		for line := range strings.SplitSeq(m.Text, "\n") {
			if g, ok := strings.CutPrefix(line, gateLine); ok && b.gate == "" {
				b.gate = strings.TrimSpace(g)
				var quoted string
				if json.Unmarshal([]byte(b.gate), &quoted) == nil && strings.Contains(quoted, "\n") {
					b.gate = quoted
				}
			}
		}
		b.request = requestOf(m.Text)
		break
	}
	return b
}

// requestOf is the part of a brief that a person wrote: what comes before the
// gate and the repository's own texts.
func requestOf(text string) string {
	if i := strings.Index(text, "\n"+gateLine); i >= 0 {
		text = text[:i]
	}
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "Request:"))
	return text
}

var (
	reRepair = lazyregexp.New(`(?i)\b(fix|fixe[sd]|fixing|repair|debug|solve|resolve|correct|mend|heal)\b|\bmake\b.*\b(pass|work|green|compile|build)\b|\b(get|turn)\b.*\bgreen\b|\b(failing|broken|fails?|failure|bug|regression|red)\b`)
	reBuilds = lazyregexp.New(`(?i)\b(implement|add|write|create|introduce|support|migrate|port|upgrade|refactor|redesign|rewrite|translate|document|optimi[sz]e|speed up|convert|remove|delete|extend|integrate|deploy|review|explain|describe)\b`)
	reRename = lazyregexp.New("(?i)^\\s*(?:please\\s+)?rename\\s+(?:the\\s+)?(?:function\\s+|method\\s+|class\\s+|variable\\s+|constant\\s+|type\\s+)?[`'\"]?([A-Za-z_$][\\w$]*)[`'\"]?(?:\\(\\))?\\s+(?:to|into|as)\\s+[`'\"]?([A-Za-z_$][\\w$]*)[`'\"]?(?:\\(\\))?(?:\\s+everywhere)?\\s*[.!]?\\s*$")
)

// beyond returns why a request cannot be taken on, or nil.
func (b brief) beyond(tools []model.Tool) error {
	have := map[string]bool{}
	for _, t := range tools {
		have[t.Name] = true
	}
	for _, need := range []string{"shell", "view", "str_replace", "finish"} {
		if !have[need] {
			return unable("it needs the tools shell, view, str_replace and finish, and " + need + " is missing")
		}
	}
	from, _ := renaming(b.request)
	switch {
	case b.gate == "":
		return unable("there is no gate command; set one with --verify")
	case from != "":
		return nil
	case !reRepair.MatchString(b.request):
		return unable(quoted(b.request) + " is neither a repair nor a renaming; it does not write new code")
	}
	if verb := reBuilds.FindString(b.request); verb != "" {
		return unable(fmt.Sprintf("%s requests more than a repair: the offline model cannot %s", quoted(b.request), strings.ToLower(verb)))
	}
	return nil
}

// renaming reads "rename X to Y".
func renaming(request string) (from, to string) {
	if m := reRename.FindStringSubmatch(request); m != nil && m[1] != m[2] {
		return m[1], m[2]
	}
	return "", ""
}

// unable declines work on a repository, with what to do.
func unable(why string) error {
	return api.Errorf(api.KindDeclined, "the offline model declines: %s", why).WithHint(
		`On a repository it does two things: hortus task --repo . "Fix the failing test" tries small edits until the gate passes, ` +
			`and "Rename X to Y" renames a name. hortus model catalogue lists what it does. ` +
			"A language model does more: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start Ollama with a model that calls tools, and run it again; or add --model anthropic or --model openai.")
}

// maxQuoted is the maximum length of a request in an error message, in characters.
const maxQuoted = 120

func quoted(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if list := []rune(s); len(list) > maxQuoted {
		s = string(list[:maxQuoted]) + "..."
	}
	return strconv.Quote(s)
}

// atoi converts the digits that a pattern has matched. A number that does not fit gives 1<<30.
func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 1 << 30
	}
	return n
}

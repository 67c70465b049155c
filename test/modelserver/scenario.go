package modelserver

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// Scenario is the script of a server; the package documentation describes its keys.
type Scenario struct {
	Key, Model string
	SideIgnore bool
	Steps      []Step
}

// Step is the answer to one or several requests.
type Step struct {
	Name          string
	Expect, Lacks []string
	Last          []string
	Also          []Call
	Say           string
	Output, Wire  string
	Answer        string // text, output, raw or call
	Call          string
	Act, Path     string // write or shell; of what is written
	Body          string
	Status        int
	Class         string
	Header        [][2]string
	Delay, Pace   time.Duration
	Piece         int
	Cut           int // below 0: never
	Fail          string
	Endless       bool
	Stop          string // end, length or refusal
	Input, Cached int64
	OutputTokens  int64
	Times         int
}

// Call is a further call of an answer.
type Call struct{ Tool, Input string }

// Parse parses a scenario.
func Parse(text []byte) (*Scenario, error) {
	a := txtar.Parse(text)
	s := &Scenario{}
	err := lines(string(a.Comment), func(key, value string) error {
		switch key {
		case "key":
			s.Key = value
		case "model":
			s.Model = value
		case "side":
			s.SideIgnore = value == "ignore"
			if !s.SideIgnore {
				return fmt.Errorf("side can only be ignore")
			}
		default:
			return fmt.Errorf("unknown key %q", key)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("before the first step: %w", err)
	}
	for _, f := range a.Files {
		step, err := parseStep(f.Name, string(f.Data))
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", f.Name, err)
		}
		s.Steps = append(s.Steps, step)
	}
	if len(s.Steps) == 0 {
		return nil, fmt.Errorf("the scenario has no step")
	}
	return s, nil
}

// lines calls set for each "key: value" line.
func lines(text string, set func(key, value string) error) error {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return fmt.Errorf("%q is not a key and a value", line)
		}
		if err := set(key, strings.TrimSpace(value)); err != nil {
			return err
		}
	}
	return nil
}

func parseStep(name, text string) (Step, error) {
	s := Step{Name: name, Answer: "text", Piece: 16, Cut: -1, Stop: "end", Input: 100, OutputTokens: 20, Times: 1}
	head, body, ok := strings.Cut(text, "\n\n")
	if strings.HasPrefix(text, "\n") {
		head, body, ok = "", text[1:], true
	}
	if ok {
		s.Body = strings.TrimSuffix(body, "\n")
	}
	if err := lines(head, s.set); err != nil {
		return s, err
	}
	switch {
	case s.Fail != "" && s.Cut < 0:
		return s, fmt.Errorf("fail needs cut")
	case s.Endless && s.Body == "":
		return s, fmt.Errorf("endless needs a body to repeat")
	case (len(s.Also) > 0 || s.Say != "" && s.Act == "") && s.Answer != "call":
		return s, fmt.Errorf("also and say need call")
	case s.Answer == "call" && s.Call == "":
		return s, fmt.Errorf("answer: call needs call: TOOL")
	}
	return s, nil
}

func (s *Step) set(key, value string) error {
	var err error
	switch key {
	case "expect":
		s.Expect = append(s.Expect, value)
	case "last":
		s.Last = append(s.Last, value)
	case "also":
		name, input, _ := strings.Cut(value, " ")
		s.Also = append(s.Also, Call{name, input})
	case "say":
		s.Say = value
	case "lacks":
		s.Lacks = append(s.Lacks, value)
	case "output":
		s.Output = value
	case "wire":
		s.Wire, err = oneOf(key, value, "messages", "chat", "responses", "gemini")
	case "answer":
		s.Answer, err = oneOf(key, value, "text", "output", "raw")
	case "call":
		s.Answer, s.Call = "call", value
	case "act":
		kind, file, _ := strings.Cut(value, " ")
		s.Path = strings.TrimSpace(file)
		s.Answer = "act"
		if s.Act, err = oneOf(key, kind, "write", "shell"); err == nil && (s.Act == "write") != (s.Path != "") {
			err = fmt.Errorf("act: want write PATH, or shell")
		}
	case "status":
		s.Status, err = number(key, value, 400, 599)
	case "class":
		s.Class = value
	case "header":
		name, v, ok := strings.Cut(value, ":")
		if !ok {
			return fmt.Errorf("header: want NAME: VALUE")
		}
		s.Header = append(s.Header, [2]string{strings.TrimSpace(name), strings.TrimSpace(v)})
	case "delay":
		s.Delay, err = time.ParseDuration(value)
	case "pace":
		s.Pace, err = time.ParseDuration(value)
	case "piece":
		s.Piece, err = number(key, value, 1, 1<<20)
	case "cut":
		s.Cut, err = number(key, value, 0, 1<<30)
	case "fail":
		s.Fail = value
	case "endless":
		s.Endless = value == "true"
		if !s.Endless {
			return fmt.Errorf("endless can only be true")
		}
	case "stop":
		s.Stop, err = oneOf(key, value, "end", "length", "refusal")
	case "usage":
		if _, err := fmt.Sscanf(value, "%d %d %d", &s.Input, &s.Cached, &s.OutputTokens); err != nil {
			return fmt.Errorf("usage: want IN CACHED OUT: %w", err)
		}
		if s.Cached < 0 || s.OutputTokens < 0 || s.Input < s.Cached {
			return fmt.Errorf("usage: IN holds CACHED, and none is below 0")
		}
	case "times":
		s.Times, err = number(key, value, 1, 1_000_000)
	default:
		return fmt.Errorf("unknown key %q", key)
	}
	return err
}

func oneOf(key, value string, words ...string) (string, error) {
	for _, w := range words {
		if value == w {
			return value, nil
		}
	}
	return "", fmt.Errorf("%s: %q is none of %s", key, value, strings.Join(words, ", "))
}

func number(key, value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s: %q is not a number from %d to %d", key, value, least, most)
	}
	return n, nil
}

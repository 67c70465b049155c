package api

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a [BestOf].
const (
	// MinBestOf and MaxBestOf bound the number of candidates.
	MinBestOf = 2
	MaxBestOf = 16
	// MaxBestDepth bounds the number of levels, and MaxCandidates that of the candidates of all levels together.
	MaxBestDepth  = 6
	MaxCandidates = 32
	// MaxStrategy bounds a strategy, in bytes.
	MaxStrategy = 1000
)

// BestOf requests several candidates.
type BestOf struct {
	// Of is the number of candidates, MinBestOf to MaxBestOf. With several levels it is that of each, and may be 1.
	Of int `json:"of"`
	// Depth is the maximum number of levels; 0 and 1 are one. While no candidate passes the gate, the next level continues
	// the best one that no level has continued yet.
	Depth int `json:"depth,omitempty"`
	// First ends the others as soon as one passes the gate.
	First bool `json:"first,omitempty"`
	// Vary says how the candidates of a level differ, at most one entry for each. A stored task has all of them: the further ones
	// differ by their strategies, and by their temperatures if the model takes one.
	Vary []Variant `json:"vary,omitempty"`
}

// Variant is how a candidate differs from the request. An empty field is as in the request.
type Variant struct {
	// Agent is who works, and Model the model of the agent.
	Agent string `json:"agent,omitempty"`
	Model string `json:"model,omitempty"`
	// Temperature is for the model of Hortus's own agent, if that takes one.
	Temperature *float64 `json:"temperature,omitempty"`
	// Strategy is a line that is added to the request.
	Strategy string `json:"strategy,omitempty"`
}

// String lists what differs, for people.
func (v Variant) String() string {
	var out []string
	for _, f := range [][2]string{{"agent", v.Agent}, {"model", v.Model}} {
		if f[1] != "" {
			out = append(out, f[0]+" "+f[1])
		}
	}
	if v.Temperature != nil {
		out = append(out, "temperature "+strconv.FormatFloat(*v.Temperature, 'g', 3, 64))
	}
	if v.Strategy != "" {
		out = append(out, v.Strategy)
	}
	if len(out) == 0 {
		return "as requested"
	}
	return strings.Join(out, ", ")
}

// CandidateState is where a candidate stands.
type CandidateState string

const (
	CandidateWaiting CandidateState = "waiting"
	CandidateRunning CandidateState = "running"
	CandidateEnded   CandidateState = "ended"
)

// CandidateCopies are workspaces, by the names of the sub-agents that work in them ("research 1").
type CandidateCopies map[string]string

// Candidate is one of the agents and what it came to.
type Candidate struct {
	N int `json:"n"` // from 1
	// Level is from 1, and Parent the candidate of a level before whose work it continues, of a request with several levels;
	// 0 for none.
	Level  int `json:"level,omitempty"`
	Parent int `json:"parent,omitempty"`
	Variant
	State CandidateState `json:"state"`
	// Workspace has its files while the task runs; after that only the chosen one has files, which are the task's.
	Workspace string `json:"workspace,omitempty"`
	// Copies are its copies that sub-agents work in now.
	Copies CandidateCopies `json:"copies,omitempty"`
	// Outcome is how it would have ended as the only one.
	Outcome string `json:"outcome,omitempty"`
	// Passed is true if every gate of its last round passed, and its result is one that can be delivered.
	Passed bool `json:"passed"`
	// OldOnly is true if only tests that failed before the work keep it from passing, so that it may be taken if none passes.
	OldOnly bool `json:"oldOnly,omitempty"`
	// Judged is true if the gate ran on the result of its last round.
	Judged bool `json:"judged,omitempty"`
	// Regressions counts the tests that passed before the work and do not pass with the result. Failing counts all
	// tests that fail with it.
	Regressions int `json:"regressions,omitempty"`
	Failing     int `json:"failing,omitempty"`
	// Cautions counts the cautions about its result.
	Cautions int `json:"cautions,omitempty"`
	// Compared counts the other candidates that passed with which it was compared: each ran the tests that the other one wrote. It
	// agrees with one if both pass, and Agrees counts those. Fails counts those whose tests it fails.
	Compared int `json:"compared,omitempty"`
	Agrees   int `json:"agrees,omitempty"`
	Fails    int `json:"fails,omitempty"`
	// Lint is how the lint command of the repository ended: "passed" or "failed". It is empty if the repository has
	// none, or if nothing depended on it.
	Lint string `json:"lint,omitempty"`
	// Files and Lines count the changed files, and the added and deleted lines.
	Files int `json:"files,omitempty"`
	Lines int `json:"lines,omitempty"`
	// Rounds and Steps count the work.
	Rounds int `json:"rounds,omitempty"`
	Steps  int `json:"steps,omitempty"`
	// Tokens are input and output tokens together. Unpriced counts the requests whose cost is not in CostUSD.
	Tokens   int64   `json:"tokens,omitempty"`
	CostUSD  float64 `json:"costUsd,omitempty"`
	Unpriced int     `json:"unpriced,omitempty"`
	MS       int64   `json:"ms,omitempty"`
	// Chosen is true for the one whose result is that of the task. Why says why it was chosen, or why it was not.
	Chosen bool   `json:"chosen,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Strategies are the approaches of candidates whose strategy nobody set: the first one has none.
func Strategies() []string {
	return []string{
		"",
		"Make the smallest change that is correct.",
		"Write a test that fails first, then make it pass.",
		"Find the root cause before you change anything, and repair it there.",
		"Read the callers of the code first, and keep their behavior.",
		"List the edge cases first, and handle each of them.",
		"Prefer the simplest design, even if more lines change.",
		"Look for the same defect elsewhere in the repository, and repair it too.",
	}
}

// Fill returns the variants of all candidates: those that were given, and further ones. temperatures is true if the
// model of the request takes a temperature.
func (r BestOf) Fill(temperatures bool) []Variant {
	out := slices.Clone(r.Vary)
	all := Strategies()
	for i := len(out); i < r.Of; i++ {
		v := Variant{Strategy: all[i%len(all)]}
		if i >= len(all) && v.Strategy == "" {
			v.Strategy = fmt.Sprintf("Take another approach than the obvious one (%d).", i+1)
		}
		if temperatures && i > 0 {
			t := float64(min(2+2*((i-1)%5), 10)) / 10
			v.Temperature = &t
		}
		out = append(out, v)
	}
	return out
}

// Levels is the maximum number of levels.
func (r BestOf) Levels() int { return max(1, r.Depth) }

// All is the maximum number of candidates of all levels.
func (r BestOf) All() int { return max(1, min(r.Of, MaxBestOf)) * min(r.Levels(), MaxBestDepth) }

// Wrong says what is wrong with the number of candidates or levels; it is empty if nothing is.
func (r BestOf) Wrong() string {
	least := MinBestOf
	if r.Levels() > 1 {
		least = 1
	}
	switch {
	case r.Depth < 0 || r.Depth > MaxBestDepth:
		return fmt.Sprintf("%d levels; use 1 to %d", r.Depth, MaxBestDepth)
	case r.Of < least || r.Of > MaxBestOf:
		return fmt.Sprintf("%d candidates; use %d to %d", r.Of, least, MaxBestOf)
	case r.All() > MaxCandidates:
		return fmt.Sprintf("%d levels of %d candidates are %d; the maximum is %d together", r.Depth, r.Of, r.All(), MaxCandidates)
	}
	return ""
}

// Share is the part of a total that one candidate has: that of each possible one is the same.
func (r BestOf) Share(total int64) int64 { return total / int64(r.All()) }

// Part is the part of a cost that one candidate has.
func (r BestOf) Part(cost float64) float64 { return cost / float64(r.All()) }

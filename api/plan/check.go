package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
)

const idLetters = "abcdefghijklmnopqrstuvwxyz0123456789-"

// CheckID refuses what cannot be the id of an item: KindInvalid.
func CheckID(id string) error {
	if id == "" || len(id) > 40 || strings.Trim(id, idLetters) != "" || id[0] == '-' {
		return api.Errorf(api.KindInvalid, "%.60q is not a valid id of an item", id).
			WithHint(`use 1 to 40 lower-case letters, digits and "-", not beginning with "-"`)
	}
	return nil
}

// Check refuses items that are no plan, whatever the repository is: KindInvalid. It checks their ids, texts and bounds, and that they
// can be put in an order.
func Check(items []Item) error {
	switch {
	case len(items) == 0:
		return api.Errorf(api.KindInvalid, "a plan needs at least one item")
	case len(items) > MaxItems:
		return api.Errorf(api.KindInvalid, "the plan has %d items; the maximum is %d", len(items), MaxItems)
	}
	known := map[string]bool{}
	for _, it := range items {
		if err := CheckID(it.ID); err != nil {
			return err
		}
		if known[it.ID] {
			return api.Errorf(api.KindInvalid, "two items have the id %s", it.ID)
		}
		known[it.ID] = true
		if err := it.check(); err != nil {
			return api.Errorf(api.KindInvalid, "item %s: %w", it.ID, err)
		}
	}
	for _, it := range items {
		for _, need := range it.Needs {
			if !known[need] {
				return api.Errorf(api.KindInvalid, "item %s needs %.60q, which is no item of the plan", it.ID, need)
			}
		}
	}
	if circle := Circle(items); circle != nil {
		return api.Errorf(api.KindInvalid, "the items need each other in a circle: %s", strings.Join(circle, " -> "))
	}
	return nil
}

func (it Item) check() error {
	text := func(name, s string, most int) error {
		if len(s) > most || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return fmt.Errorf("its %s is not UTF-8 text of at most %d bytes", name, most)
		}
		return nil
	}
	if strings.TrimSpace(it.Request) == "" {
		return fmt.Errorf("it has no request")
	}
	if it.Minutes < 0 {
		return fmt.Errorf("its minutes are negative")
	}
	if len(it.Touches) > MaxGlobs || len(it.Creates) > MaxGlobs || len(it.Needs) > MaxItems || len(it.Context) > MaxGlobs {
		return fmt.Errorf("it has more than %d globs, or too many needs or documents", MaxGlobs)
	}
	if slices.Contains(it.Needs, it.ID) {
		return fmt.Errorf("it needs itself")
	}
	if empty(it.Acceptance) {
		return fmt.Errorf("its acceptance %q cannot fail", strings.TrimSpace(it.Acceptance))
	}
	return cmp.Or(
		text("request", it.Request, MaxRequest), text("title", it.Title, 200), text("acceptance", it.Acceptance, 4<<10),
		text("touches", strings.Join(it.Touches, ""), 16<<10), text("creates", strings.Join(it.Creates, ""), 16<<10),
		text("agent", it.Agent+it.Model, 400), text("context", strings.Join(it.Context, ""), 8<<10),
	)
}

// empty reports whether a command cannot fail, as far as its text tells.
func empty(command string) bool {
	c := strings.TrimSpace(command)
	if command != "" && c == "" {
		return true
	}
	last := c
	for _, sep := range []string{"||", ";", "\n"} {
		if i := strings.LastIndex(last, sep); i >= 0 {
			last = last[i+len(sep):]
		}
	}
	switch word, _, _ := strings.Cut(strings.TrimSpace(last), " "); word {
	case "true", ":", "echo", "printf":
		return true
	case "exit":
		return strings.TrimSpace(last) == "exit 0"
	}
	return false
}

// Circle returns items that need each other in a circle, the first one again at the end; nil if there is none.
func Circle(items []Item) []string {
	needs := map[string][]string{}
	for _, it := range items {
		needs[it.ID] = it.Needs
	}
	const open, closed = 1, 2
	state := map[string]int{}
	var path []string
	var visit func(id string) []string
	visit = func(id string) []string {
		switch state[id] {
		case closed:
			return nil
		case open:
			return append(slices.Clone(path[slices.Index(path, id):]), id)
		}
		state[id] = open
		path = append(path, id)
		for _, need := range needs[id] {
			if c := visit(need); c != nil {
				return c
			}
		}
		path = path[:len(path)-1]
		state[id] = closed
		return nil
	}
	for _, it := range items {
		if c := visit(it.ID); c != nil {
			return c
		}
	}
	return nil
}

// Levels returns the items in groups: each item is in the first group behind those of all items that it needs. The items must have no
// circle.
func Levels(items []Item) (levels [][]Item) {
	at := map[string]int{}
	for placed := 0; placed < len(items); {
		before := placed
		for _, it := range items {
			if _, ok := at[it.ID]; ok {
				continue
			}
			level, ready := 0, true
			for _, need := range it.Needs {
				l, ok := at[need]
				ready = ready && ok
				level = max(level, l+1)
			}
			if !ready {
				continue
			}
			at[it.ID] = level
			placed++
		}
		if placed == before {
			break // a circle
		}
	}
	for _, it := range items {
		l, ok := at[it.ID]
		if !ok {
			continue
		}
		for len(levels) <= l {
			levels = append(levels, nil)
		}
		levels[l] = append(levels[l], it)
	}
	return levels
}

// Name is the title of an item, or the first line of its request.
func (it Item) Name() string {
	if it.Title != "" {
		return it.Title
	}
	line, _, _ := strings.Cut(strings.TrimSpace(it.Request), "\n")
	const most = 72
	if r := []rune(line); len(r) > most {
		line = string(r[:most-1]) + "…"
	}
	return line
}

// Check refuses a request for a plan that makes no sense: KindInvalid. What the task of an item would refuse is checked where tasks are.
func (c Create) Check() error {
	switch {
	case c.Task.Repo == nil:
		return api.Errorf(api.KindInvalid, "a plan is about a repository, and none is named")
	case len(c.Task.Repo.Also) > 0:
		return api.Errorf(api.KindInvalid, "a plan is about one repository; got %d", 1+len(c.Task.Repo.Also))
	case c.Task.Repo.Workspace != "" || c.Task.Repo.NoAgent() || c.Task.Record != "" || c.Task.Repo.Mutant != "":
		return api.Errorf(api.KindInvalid, "workspace, prepareOnly, gateOnly, mutant and record cannot be used with a plan")
	case len(c.Task.Schema) > 0:
		return api.Errorf(api.KindInvalid, "a plan has no value: schema cannot be used with it")
	case strings.TrimSpace(c.Task.Request) == "":
		return api.Errorf(api.KindInvalid, "a plan needs a request")
	case c.Parallel < 0 || c.Parallel > MaxParallel:
		return api.Errorf(api.KindInvalid, "parallel is %d; it must be between 1 and %d", c.Parallel, MaxParallel)
	}
	if err := checkFollow(c.Task.Repo.MergeRequest, c.Stacked, c.Follow, c.FollowRounds); err != nil || c.Items == nil {
		return err
	}
	return Check(c.Items)
}

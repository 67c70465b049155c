package tool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
)

const createAbout = `Write a whole file. View an existing file before you replace it.`

const replaceAbout = `Replace text in a file. old must match exactly, including white space, and only once unless all is true.`

const insertAbout = `Insert whole lines into a file after a line number.`

var forceField = field{name: "force", kind: "boolean", doc: "Write despite a syntax error."}

func (s *Set) create() *tool {
	return &tool{name: "create", about: createAbout, run: s.runCreate, input: fields{
		{name: "path", kind: "string", need: true, doc: "File to write."},
		{name: "content", kind: "string", need: true, doc: "Complete content."}, forceField,
	}}
}

func (s *Set) strReplace() *tool {
	return &tool{name: "str_replace", about: replaceAbout, run: s.runReplace, input: fields{
		{name: "path", kind: "string", need: true, doc: "File to write."},
		{name: "old", kind: "string", need: true, doc: "Text to replace, without line numbers."},
		{name: "new", kind: "string", need: true, doc: "Replacement text."},
		{name: "all", kind: "boolean", doc: "Replace every match."}, forceField,
	}}
}

func (s *Set) insert() *tool {
	return &tool{name: "insert", about: insertAbout, run: s.runInsert, input: fields{
		{name: "path", kind: "string", need: true, doc: "File to write."},
		{name: "line", kind: "integer", need: true, min: 0, max: anyLine, doc: "Insert after this line; 0 is the top."},
		{name: "text", kind: "string", need: true, doc: "Lines to insert."}, forceField,
	}}
}

func (s *Set) runCreate(ctx context.Context, in args) (loop.Result, error) {
	w, err := s.where(in.str("path"))
	if err != nil {
		return loop.Result{}, err
	}
	d := document{text: in.str("content")}
	if rest, ok := strings.CutPrefix(d.text, bom); ok {
		d = document{rest, true}
	}
	if strings.ContainsRune(d.text, 0) {
		return loop.Result{}, teach("the content contains a NUL character; create binary files with shell")
	}
	e := edit{where: w, after: d, force: in.yes("force"), whole: true}
	old, err := s.cfg.Sandbox.ReadFile(ctx, w.abs, maxFile)
	switch api.KindOf(err) {
	case "", api.KindExhausted: // a large file is a file
		if !s.seen.has(w.abs) && (err != nil || len(old) > 0) {
			return failed("create "+w.say+": exists", "%s already exists and you have not viewed it. View it first. Then change it with str_replace, or call create again to replace it.", w.say), nil
		}
		if before, why := parseDocument(old); err == nil && why == "" {
			e.before = &before
			// What was CR LF and marked stays so.
			e.after.bom = e.after.bom || before.bom
			if before.crlf() {
				e.after.text = toCRLF(e.after.text)
			}
		}
		e.over = true
	case api.KindNotFound:
	default:
		return loop.Result{}, err
	}
	return s.write(ctx, e)
}

// open reads a file that is to be edited.
func (s *Set) open(ctx context.Context, in args) (e edit, err error) {
	if e.where, err = s.where(in.str("path")); err != nil {
		return e, err
	}
	b, err := s.cfg.Sandbox.ReadFile(ctx, e.where.abs, maxFile)
	switch api.KindOf(err) {
	case "":
	case api.KindNotFound:
		return e, api.Errorf(api.KindNotFound, "%s does not exist; locate it with find, or create it with create", e.where.say)
	case api.KindExhausted:
		return e, api.Errorf(api.KindExhausted, "%s exceeds the maximum of %d bytes for edits; use shell (sed, a script)", e.where.say, maxFile)
	default:
		return e, err
	}
	d, why := parseDocument(b)
	if why != "" {
		return e, teach("%s is %s and cannot be edited with this tool; use shell", e.where.say, why)
	}
	e.before, e.after, e.force, e.over = &d, d, in.yes("force"), true
	return e, nil
}

func (s *Set) runReplace(ctx context.Context, in args) (loop.Result, error) {
	e, err := s.open(ctx, in)
	if err != nil {
		return loop.Result{}, err
	}
	text, old, now := e.before.text, in.str("old"), in.str("new")
	switch {
	case old == "":
		return loop.Result{}, teach("old is empty; use insert to add lines, or create to write the whole file")
	case old == now:
		return loop.Result{}, teach("old and new are identical; nothing would change")
	case strings.ContainsRune(now, 0):
		return loop.Result{}, teach("new contains a NUL character; a text file must not")
	}
	if e.before.crlf() {
		// Models write LF; the file keeps what it has.
		old, now = toCRLF(old), toCRLF(now)
	} else if !strings.Contains(text, old) && strings.Contains(text, toCRLF(old)) {
		old, now = toCRLF(old), toCRLF(now) // in a part of a mixed file
	}
	n := strings.Count(text, old)
	switch {
	case n == 0:
		return failed("edit "+e.where.say+": old not found", "old was not found in %s. %s", e.where.say, near(text, in.str("old"))), nil
	case n > 1 && !in.yes("all"):
		return failed("edit "+e.where.say+": old found "+fmt.Sprint(n)+" times", "old occurs %d times in %s, at lines %s. Add surrounding lines to old to make it unique, or set all to replace every match.",
			n, e.where.say, matchLines(text, old)), nil
	}
	if grown := len(text) + n*(len(now)-len(old)); grown > maxFile {
		return loop.Result{}, teach("the file would have %d bytes; the maximum is %d", grown, maxFile)
	}
	e.after.text = strings.ReplaceAll(text, old, now)
	if n > 1 {
		e.note = fmt.Sprintf("%d matches were replaced.", n)
	}
	return s.write(ctx, e)
}

// matchLines lists the lines at which old begins, 20 at most.
func matchLines(text, old string) string {
	var all []string
	line, at := 1, 0
	for {
		i := strings.Index(text[at:], old)
		if i < 0 {
			break
		}
		line += strings.Count(text[at:at+i], "\n")
		if len(all) == 20 {
			all = append(all, "...")
			break
		}
		all = append(all, fmt.Sprint(line))
		line += strings.Count(old, "\n")
		at += i + len(old)
	}
	return strings.Join(all, ", ")
}

func (s *Set) runInsert(ctx context.Context, in args) (loop.Result, error) {
	e, err := s.open(ctx, in)
	if err != nil {
		return loop.Result{}, err
	}
	text, add, after := e.before.text, in.str("text"), in.num("line", 0)
	if add == "" {
		return loop.Result{}, teach("the text is empty; nothing would change")
	}
	if strings.ContainsRune(add, 0) {
		return loop.Result{}, teach("the text contains a NUL character; a text file must not")
	}
	all := lines(text)
	if after > int64(len(all)) {
		return loop.Result{}, teach("%s has %d lines; line is %d. Set line to %d to append to the file", e.where.say, len(all), after, len(all))
	}
	at := 0
	for range after {
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			at += i + 1
		} else {
			at = len(text)
		}
	}
	ending := "\n"
	if e.before.crlf() {
		add, ending = toCRLF(add), "\r\n"
	}
	switch {
	case at > 0 && text[at-1] != '\n':
		// After a last line without a break, whose file stays without one.
		add = ending + strings.TrimSuffix(add, ending)
	case !strings.HasSuffix(add, "\n"):
		add += ending
	}
	e.after.text = text[:at] + add + text[at:]
	return s.write(ctx, e)
}

// edit is a change that is to be written.
type edit struct {
	where  where
	before *document // nil for a file that was not there, or could not be read
	after  document
	over   bool // a file is there
	force  bool
	whole  bool // the model wrote all of it
	note   string
}

// around is how many lines are shown around a change.
const around = 3

// write checks a change and writes it.
func (s *Set) write(ctx context.Context, e edit) (loop.Result, error) {
	content := e.after.bytes()
	if len(content) > maxFile {
		return loop.Result{}, teach("%s would have %d bytes; the maximum is %d", e.where.say, len(content), maxFile)
	}
	var before string
	if e.before != nil {
		before = e.before.text
		if before == e.after.text && e.before.bom == e.after.bom {
			return failed("edit "+e.where.say+": no change", "%s already has this content; nothing was written.", e.where.say), nil
		}
	}
	notes, refused, err := s.inspect(ctx, e)
	if err != nil || refused != nil {
		return orZero(refused), err
	}
	if err := s.cfg.Sandbox.WriteFile(ctx, e.where.abs, content, !e.over && strings.HasPrefix(e.after.text, "#!")); err != nil {
		return loop.Result{}, err
	}
	s.seen.add(e.where.abs)
	added, removed, first := changed(before, e.after.text)
	verb := "edited"
	if !e.over {
		verb = "created"
	}
	short := fmt.Sprintf("%s %s (+%d -%d)", verb, e.where.say, added, removed)
	text := short + "\n"
	for _, n := range append([]string{e.note}, notes...) {
		if n != "" {
			text += n + "\n"
		}
	}
	if e.before != nil && !e.whole {
		all := lines(e.after.text)
		from := max(first-around, 0)
		part, _ := numbered(all[from:min(first+min(added, 30)+around, len(all))], from+1, maxText/2)
		text += part
	}
	return loop.Result{Text: text, Short: short}, nil
}

func orZero(r *loop.Result) loop.Result {
	if r == nil {
		return loop.Result{}
	}
	return *r
}

// inspect looks for a syntax error that a change adds. A file that was broken
// before may stay so, or no user could repair it in steps.
func (s *Set) inspect(ctx context.Context, e edit) (notes []string, refused *loop.Result, err error) {
	found, skipped, err := s.check(ctx, e.where, e.after.text)
	if err != nil {
		return nil, nil, err
	}
	if skipped != "" {
		return []string{"Its syntax was not checked: " + skipped + "."}, nil, nil
	}
	if found == nil {
		return nil, nil, nil
	}
	if e.before != nil {
		was, _, err := s.check(ctx, e.where, e.before.text)
		if err != nil {
			return nil, nil, err
		}
		if was != nil {
			return []string{fmt.Sprintf("The syntax error that it had before remains: %s.", found)}, nil, nil
		}
	}
	if e.force {
		return []string{fmt.Sprintf("Written because force is true. It has a syntax error: %s.", found)}, nil, nil
	}
	var shown string
	if all := lines(e.after.text); found.line > 0 && len(all) > 0 {
		at := min(found.line, len(all)) - 1
		from := max(at-around, 0)
		shown, _ = numbered(all[from:min(at+around+1, len(all))], from+1, maxText/4)
	}
	r := failed("edit "+e.where.say+": refused, "+clip(found.String(), 80),
		"Nothing was written: %s would have a syntax error: %s.\n%sFix it and retry, or set force to write it anyway.", e.where.say, found, shown)
	return nil, &r, nil
}

// Bounds of the search for what was meant.
const (
	nearPlaces = 3
	nearLines  = 12      // shown of each
	nearScan   = 512     // bytes of a line that are compared
	nearSame   = 0.5     // how alike a line must be to be shown
	nearMost   = 2 << 20 // bytes of a text that are looked through
)

// near returns where a text nearly holds old: with other white space, or the lines
// most like it.
func near(text, old string) string {
	text = clip(text, nearMost)
	all, want := lines(text), lines(strings.Trim(old, "\r\n"))
	if len(all) == 0 {
		return "The file is empty."
	}
	if len(want) == 0 {
		return "old must contain more than line breaks."
	}
	if at := sameButSpace(all, want); len(at) > 0 {
		var b strings.Builder
		b.WriteString("The text occurs with different white space. Copy it exactly from here:\n")
		for _, i := range at {
			part, _ := numbered(all[i:min(i+len(want), i+nearLines, len(all))], i+1, maxText/nearPlaces)
			b.WriteString(part)
		}
		return b.String()
	}
	at := mostAlike(all, want)
	if len(at) == 0 {
		return "The file has no similar lines. View the file again."
	}
	var b strings.Builder
	b.WriteString("The most similar lines are:\n")
	for _, i := range at {
		from := max(i-1, 0)
		part, _ := numbered(all[from:min(i+min(len(want), nearLines)+1, len(all))], from+1, maxText/4)
		b.WriteString(part)
		b.WriteString("...\n")
	}
	return strings.TrimSuffix(b.String(), "...\n")
}

// sameButSpace finds where want stands when white space does not count, up to
// nearPlaces times. Lines that are empty but for it stand for themselves.
func sameButSpace(all, want []string) (at []int) {
	squeeze := func(in []string) []string {
		out := make([]string, len(in))
		for i, l := range in {
			out[i] = strings.Join(strings.Fields(l), "")
		}
		return out
	}
	a, w := squeeze(all), squeeze(want)
	if strings.Join(w, "") == "" {
		return nil
	}
	// One line may be a part of one.
	if len(w) == 1 {
		for i, l := range a {
			if strings.Contains(l, w[0]) && len(at) < nearPlaces {
				at = append(at, i)
			}
		}
		return at
	}
	return indexAll(a, w, nearPlaces)
}

// indexAll finds w in a, at most n times, without comparing every pair (Knuth,
// Morris and Pratt).
func indexAll(a, w []string, n int) (at []int) {
	back := make([]int, len(w))
	for i, k := 1, 0; i < len(w); i++ {
		for k > 0 && w[i] != w[k] {
			k = back[k-1]
		}
		if w[i] == w[k] {
			k++
		}
		back[i] = k
	}
	k := 0
	for i := range a {
		for k > 0 && a[i] != w[k] {
			k = back[k-1]
		}
		if a[i] == w[k] {
			k++
		}
		if k == len(w) {
			at = append(at, i-len(w)+1)
			if len(at) == n {
				break
			}
			k = back[k-1]
		}
	}
	return at
}

// mostAlike finds where lines stand that are like want: it looks for want's
// longest line, and gives the places at which want would begin.
func mostAlike(all, want []string) []int {
	key := 0
	for i, l := range want {
		if len(strings.TrimSpace(l)) > len(strings.TrimSpace(want[key])) {
			key = i
		}
	}
	like := newLikeness(want[key])
	if like.n == 0 {
		return nil
	}
	type place struct {
		line  int
		score float64
	}
	var best []place
	for i, l := range all {
		score := like.to(l)
		if score < nearSame {
			continue
		}
		best = append(best, place{max(i-key, 0), score})
		if len(best) > 64 {
			slices.SortStableFunc(best, func(a, b place) int { return cmp.Compare(b.score, a.score) })
			best = best[:nearPlaces]
		}
	}
	slices.SortStableFunc(best, func(a, b place) int { return cmp.Compare(b.score, a.score) })
	var at []int
	for _, p := range best[:min(len(best), nearPlaces)] {
		if !slices.Contains(at, p.line) {
			at = append(at, p.line)
		}
	}
	return at
}

// short is what of a line is compared.
func short(l string) string {
	l = strings.TrimSpace(l)
	return l[:min(len(l), nearScan)]
}

// likeness compares one line with many.
type likeness struct {
	pairs [1 << 16]int16 // how often each pair of neighbouring bytes stands in it
	n     int            // how many pairs it has
}

func newLikeness(l string) *likeness {
	l = short(l)
	k := &likeness{n: max(len(l)-1, 0)}
	for i := 0; i+1 < len(l); i++ {
		k.pairs[pair(l, i)]++
	}
	return k
}

func pair(l string, i int) int { return int(l[i])<<8 | int(l[i+1]) }

// to is Dice's coefficient of the pairs of both lines, from 0 to 1.
func (k *likeness) to(l string) float64 {
	l = short(l)
	m := len(l) - 1
	if m < 1 || 2*float64(min(m, k.n))/float64(m+k.n) < nearSame {
		return 0 // lengths that far apart cannot be like enough
	}
	common := 0
	for i := range m { // each pair of it counts once
		if k.pairs[pair(l, i)] > 0 {
			common++
		}
		k.pairs[pair(l, i)]--
	}
	for i := range m {
		k.pairs[pair(l, i)]++
	}
	return 2 * float64(common) / float64(m+k.n)
}

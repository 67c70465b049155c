package edit

import (
	"slices"
	"strings"
)

// variables are the names that a function has of its own: its parameters and
// what it assigns, in order.
func (c *collector) variables() []string {
	if c.unit == nil || !c.unit.fn {
		return nil
	}
	var out []string
	add := func(w string) {
		if !keywords[w] && w != "self" && w != "cls" && w != "_" && w != "t" && !slices.Contains(out, w) && len(out) < 12 {
			out = append(out, w)
		}
	}
	for i := c.unit.from; i <= c.unit.to; i++ {
		toks := c.s.lines[i].toks
		header := i == c.unit.from
		for n, t := range toks {
			if t.kind != word || n > 0 && toks[n-1].s == "." || c.unit.named(t.s) {
				continue
			}
			next := ""
			if n+1 < len(toks) {
				next = toks[n+1].s
			}
			switch {
			case header && c.s.lang == Go && n > 0 && (toks[n-1].s == "(" || toks[n-1].s == ","):
				add(t.s)
			case header && c.s.lang != Go && (next == "," || next == ")" || next == "=" || next == ":") && n > 0 && toks[n-1].s != ":" && toks[n-1].s != "=":
				add(t.s)
			case next == "=" || next == ":=" || next == "in" || next == "of" || n > 0 && (toks[n-1].s == "for" || toks[n-1].s == "const" || toks[n-1].s == "let"):
				add(t.s)
			case next == "," && slices.ContainsFunc(toks[n:], func(t token) bool { return t.s == "=" || t.s == ":=" || t.s == "in" }) && toks[0].s != "return":
				add(t.s)
			}
		}
	}
	return out
}

// opposites are names of which one stands where the other should.
var opposites = func() map[string][]string {
	m := map[string][]string{}
	for _, group := range strings.Split(`min max|floor ceil round trunc|lower upper|toLowerCase toUpperCase|ToLower ToUpper|strip lstrip rstrip|trim trimStart trimEnd|TrimSpace TrimLeft TrimRight|TrimPrefix TrimSuffix
append extend insert|append appendleft|pop popleft|push unshift|pop shift|any all|some every|indexOf lastIndexOf|find rfind|index rindex|Index LastIndex|split rsplit|partition rpartition|startswith endswith|startsWith endsWith|HasPrefix HasSuffix
keys values items get|keys values entries get|map filter forEach reduce flatMap|split join|has get set add delete|some find findIndex|append remove pop|isalpha isupper islower|sorted reversed|Front Back|PushFront PushBack|MoveToFront MoveToBack|Before After|Next Prev|next prev|left right|start end|begin end|first last|head tail|low high|lo hi|width height|row col|rows cols|x y|union intersection difference|add discard remove|add delete|get set|is_lt is_gt|filter map|slice splice|padStart padEnd|ljust rjust|isdigit isalpha isalnum|Min Max|Floor Ceil|Lock RLock|Add Sub|add sub|plus minus|debit credit|True False|true false|parent child|source target|old new|before after|isupper islower|IsUpper IsLower|IsDigit IsLetter|sum max min|bisect_left bisect_right|has get|seconds minutes hours days|getMonth getDate getDay|weekday isoweekday|Errorf Sprintf|Println Printf|int float round|str repr|list set tuple|parseInt parseFloat|title capitalize|setdefault get|count index|Fields Split|concat push|sort sorted|nlargest nsmallest|heappop heappush|substring substr slice|charAt charCodeAt|dec inc|decrement increment|open close|from to|src dst|a b|i j|key value|k v|name value|name id|None 0|nil err|null undefined|continue break`, "|") {
		f := strings.Fields(group)
		for _, a := range f {
			for _, b := range f {
				if a != b && !slices.Contains(m[a], b) {
					m[a] = append(m[a], b)
				}
			}
		}
	}
	return m
}()

// Edits that replace names by others of the same place.

// name replaces the name at token n: by its opposite, by another variable, by
// another member.
func (c *collector) name(n int) {
	t := c.l.toks[n]
	if t.kind != word {
		return
	}
	member := c.tok(n-1) == "."
	for _, o := range opposites[t.s] {
		switch {
		case t.s == "break" || t.s == "continue":
			if len(c.l.toks) <= 2 {
				c.token(3, n, o)
			}
		case len(o) <= 2 && !slices.Contains(c.vars, o) && !member:
		default:
			c.token(2, n, o)
		}
	}
	if member {
		c.member(n)
		return
	}
	if slices.Contains(c.vars, t.s) && c.tok(n+1) != ":=" && (c.tok(n+1) != "=" || c.lang() == Python) && !(c.unit != nil && c.i == c.unit.from) {
		for _, v := range c.vars {
			if v != t.s {
				c.token(4.5, n, v)
			}
		}
	}
	called := c.tok(n+1) == "("
	if called && !keywords[t.s] {
		c.function(n)
	}
	// A function or a class where a value belongs.
	if !called && !keywords[t.s] && !slices.Contains(c.vars, t.s) && c.unit != nil && c.unit.fn && c.i != c.unit.from && c.tok(n+1) != "=" && c.tok(n+1) != ":=" && (c.tok(n-1) != "" || c.tok(n+1) != ".") {
		for _, v := range c.vars {
			c.token(4.7, n, v)
		}
	}
}

// function replaces a called function by one with a similar role: of the same
// file.
func (c *collector) function(n int) {
	count := 0
	if c.base < 1.5 { // the failure names this very place
		for _, b := range map[Lang][]string{
			Python: {"len", "sum", "min", "max", "sorted", "list", "set", "int", "str", "range", "abs", "round", "enumerate", "zip"},
			Go:     {"append", "len", "cap", "copy", "make", "min", "max"}, JavaScript: {"String", "Number", "Boolean", "parseInt", "parseFloat", "Array"},
		}[c.lang()] {
			if b != c.l.toks[n].s && c.i != c.unitFrom() {
				c.token(5, n, b)
			}
		}
	}
	for i := range c.s.units {
		u := &c.s.units[i]
		if !u.fn || c.unit == nil || i == c.s.at(c.i) && c.tok(0) == "def" || u.class != "" && c.lang() != Go {
			continue
		}
		if name := u.names0(); name != c.l.toks[n].s && !keywords[name] && count < 6 && c.i != u.from && c.unit.from != c.i {
			count++
			c.token(5.5, n, name)
		}
	}
}

// member replaces what stands behind a dot by another member that the same file
// uses in the same way.
func (c *collector) member(n int) {
	owner, name, call := c.tok(n-2), c.tok(n), c.tok(n+1) == "("
	count := map[string]int{}
	var order []string
	for i := range c.s.lines {
		toks := c.s.lines[i].toks
		for k := 2; k < len(toks); k++ {
			if toks[k-1].s != "." || toks[k].kind != word || toks[k].s == name {
				continue
			}
			if isCall := k+1 < len(toks) && toks[k+1].s == "("; isCall != call || toks[k-2].s != owner {
				continue
			}
			if count[toks[k].s]++; count[toks[k].s] == 1 {
				order = append(order, toks[k].s)
			}
		}
	}
	for i, o := range order {
		if i >= 6 {
			break
		}
		c.token(4.5, n, o)
	}
}

// unitFrom is the first line of the current unit, or -1.
func (c *collector) unitFrom() int {
	if c.unit == nil {
		return -1
	}
	return c.unit.from
}

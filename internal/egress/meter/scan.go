package meter

import (
	"encoding/json"
	"strings"
)

const (
	// maxNest is the maximum depth of a document, maxPath that of members that are reported.
	maxNest, maxPath = 512, 5
	// maxText is the maximum size of a name or a scalar that is reported, as it is written.
	maxText = 256
)

// state is what a scanner expects.
type state uint8

const (
	wantValue  state = iota
	wantFirst        // a value or the end of an array
	wantName         // the name of a member
	wantMember       // the name of a member or the end of an object
	wantColon
	wantNext // "," or the end of what is open
	inString
	inEscape
	inName
	inNameEscape
	inScalar
	finished
	malformed
)

// scanner reads a JSON document in parts. It reports the scalars that are members of at most
// maxPath nested objects, with the names of these joined by ".". The elements of an array at the
// top are as the top; those of other arrays are not reported.
type scanner struct {
	found func(path string, v value)

	state state
	nest  []byte   // '{' or '[' of what is open
	names []string // of the members that are open, for the objects that are reported
	below int      // how many of nest are in an array that is not reported
	text  []byte   // of the name or the scalar
	long  bool     // text was cut
}

// value is a scalar.
type value struct {
	text   string // decoded if it is a string
	string bool
}

// reset begins another document.
func (s *scanner) reset() {
	s.state, s.nest, s.names, s.below = wantValue, s.nest[:0], s.names[:0], 0
	s.begin()
}

func (s *scanner) begin() { s.text, s.long = s.text[:0], false }

// keep adds a byte to the text.
func (s *scanner) keep(c byte) {
	if len(s.text) >= maxText {
		s.long = true
		return
	}
	s.text = append(s.text, c)
}

// scan reads a part.
func (s *scanner) scan(b []byte) {
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch s.state {
		case malformed:
			return
		case inString:
			// Most of a document is in strings.
			j := i
			for j < len(b) && b[j] != '"' && b[j] != '\\' && b[j] >= ' ' {
				j++
			}
			if room := maxText - len(s.text); j-i > room {
				s.text, s.long = append(s.text, b[i:i+room]...), true
			} else {
				s.text = append(s.text, b[i:j]...)
			}
			if i = j; i < len(b) {
				s.byte(b[i])
			}
		default:
			s.byte(c)
		}
	}
}

// byte reads a byte.
func (s *scanner) byte(c byte) {
	switch s.state {
	case inString, inName:
		switch {
		case c == '"':
			s.endText()
		case c < ' ':
			s.state = malformed
		default:
			if s.keep(c); c == '\\' {
				s.state++ // inEscape or inNameEscape
			}
		}
		return
	case inEscape, inNameEscape:
		s.keep(c)
		if s.state--; strings.IndexByte(`"\/bfnrtu`, c) < 0 {
			s.state = malformed
		}
		return
	case inScalar:
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '.' || c == '-' || c == '+' || c == 'E' {
			s.keep(c)
			return
		}
		s.endScalar()
	}
	if c == ' ' || c == '\t' || c == '\r' || c == '\n' {
		return
	}
	s.structure(c)
}

// structure reads a byte outside of texts.
func (s *scanner) structure(c byte) {
	switch {
	case c == '"' && (s.state == wantName || s.state == wantMember):
		s.begin()
		s.state = inName
	case c == ':' && s.state == wantColon:
		s.state = wantValue
	case c == ',' && s.state == wantNext:
		if s.state = wantValue; s.nest[len(s.nest)-1] == '{' {
			s.state = wantName
		}
	case (c == '}' && (s.state == wantNext || s.state == wantMember) || c == ']' && (s.state == wantNext || s.state == wantFirst)) &&
		s.nest[len(s.nest)-1] == c-2:
		s.close()
	case s.state != wantValue && s.state != wantFirst:
		s.state = malformed
	case c == '{' || c == '[':
		s.open(c)
	case c == '"':
		s.begin()
		s.state = inString
	case c == '-' || c >= '0' && c <= '9' || c == 't' || c == 'f' || c == 'n':
		s.begin()
		s.keep(c)
		s.state = inScalar
	default:
		s.state = malformed
	}
}

func (s *scanner) open(c byte) {
	if len(s.nest) >= maxNest {
		s.state = malformed
		return
	}
	if s.below > 0 || c == '[' && len(s.nest) > 0 {
		s.below++
	}
	s.nest = append(s.nest, c)
	if s.state = wantFirst; c == '{' {
		s.state = wantMember
		if s.below == 0 {
			s.names = append(s.names, "")
		}
	}
}

func (s *scanner) close() {
	if s.below > 0 {
		s.below--
	} else if s.nest[len(s.nest)-1] == '{' {
		s.names = s.names[:len(s.names)-1]
	}
	s.nest = s.nest[:len(s.nest)-1]
	s.after()
}

// after continues after a value.
func (s *scanner) after() {
	if s.state = wantNext; len(s.nest) == 0 {
		s.state = finished
	}
}

// endText ends a name or a string.
func (s *scanner) endText() {
	text, ok := s.decoded()
	switch {
	case s.state == malformed:
	case s.state == inName:
		if s.state = wantColon; s.below == 0 {
			if strings.Contains(text, ".") {
				text = "" // it is not two names
			}
			s.names[len(s.names)-1] = text
		}
	default:
		if ok {
			s.report(value{text, true})
		}
		s.after()
	}
}

// decoded returns the text of a name or a string that is reported.
func (s *scanner) decoded() (text string, ok bool) {
	if s.long || s.below > 0 {
		return "", false
	}
	text = string(s.text)
	if strings.IndexByte(text, '\\') >= 0 && json.Unmarshal([]byte(`"`+text+`"`), &text) != nil {
		s.state = malformed
		return "", false
	}
	return text, true
}

func (s *scanner) endScalar() {
	switch text := string(s.text); {
	case s.long:
		s.state = malformed
		return
	case text != "true" && text != "false" && text != "null" && !json.Valid(s.text):
		s.state = malformed
		return
	default:
		s.report(value{text: text})
	}
	s.after()
}

func (s *scanner) report(v value) {
	if s.below == 0 && len(s.names) > 0 && len(s.names) <= maxPath {
		s.found(strings.Join(s.names, "."), v)
	}
}

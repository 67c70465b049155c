package report

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// maxDepth bounds the levels of a JUnit file.
const maxDepth = 50

// charReference is a character by its number. Runners write some that XML does not allow.
var charReference = lazyregexp.New(`&#x?[0-9A-Fa-f]{1,8};`)

// readJUnit reads a file of the form that JUnit began and many runners write. Nothing shows who wrote it. module is where the
// tests are, if their names do not tell.
func readJUnit(runner, module string, content []byte) Report {
	r := Report{Runner: runner, Began: true}
	text := charReference.ReplaceAllLiteralString(strings.ToValidUTF8(string(content), "?"), "?")
	d := xml.NewDecoder(strings.NewReader(strings.Map(func(c rune) rune {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0xFFFE || c == 0xFFFF {
			return '?'
		}
		return c
	}, text)))
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	depth, suites := 0, 0
	name, how := "", Passed
	inTest := 0 // the depth of the test
	for {
		token, err := d.Token()
		if err != nil {
			if !errors.Is(err, io.EOF) || suites == 0 {
				r.breaks("a JUnit file is not whole: %.200v", err)
			}
			break
		}
		switch e := token.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				r.breaks("a JUnit file has more than %d levels", maxDepth)
				return r
			}
			switch tag := e.Name.Local; {
			case tag == "testsuite" || tag == "testsuites":
				suites++
			case tag == "testcase" && inTest == 0:
				inTest, name, how = depth, junitName(module, e), Passed
			case inTest > 0 && depth == inTest+1:
				if o, ok := junitOutcome(e); ok && rank(o) > rank(how) {
					how = o
				}
			}
		case xml.EndElement:
			if depth == inTest {
				if name != "" {
					r.add(name, how)
				}
				inTest = 0
			}
			depth--
		}
	}
	r.Ended = r.Broken == ""
	return r
}

// junitName is where a test is and what it is called.
func junitName(module string, e xml.StartElement) string {
	var parts []string
	for _, part := range []string{module, attribute(e, "classname"), attribute(e, "name")} {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " > ")
}

// junitOutcome is how a test ended that has this element; false if it says nothing of that.
func junitOutcome(e xml.StartElement) (Outcome, bool) {
	switch e.Name.Local {
	case "failure":
		return Failed, true
	case "error":
		if attribute(e, "message") == "collection failure" { // of pytest: a file that cannot be imported
			return Broken, true
		}
		return Failed, true
	case "skipped":
		if attribute(e, "type") == "pytest.xfail" {
			return Expected, true
		}
		return Skipped, true
	}
	return "", false
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

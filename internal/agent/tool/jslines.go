package tool

import (
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// What declares something at the beginning of a line, in JavaScript and
// TypeScript. RE2 takes linear time.
var (
	jsDeclares = lazyregexp.New(`^\s*(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(function\s*\*?\s*[\w$]*|class(?:\s+[\w$]+)?|interface\s+[\w$]+|(?:const\s+)?enum\s+[\w$]+|namespace\s+[\w$.]+|type\s+[\w$]+(?:<[^=]*>)?\s*=)`)
	jsAssigns  = lazyregexp.New(`^\s*(?:export\s+)?(?:const|let|var)\s+([\w$]+)\s*(?::[^=]+)?=\s*(?:async\s*)?(?:function\b|class\b|\([^()]*\)\s*(?::[^=]+)?=>|[\w$]+\s*=>)`)
	jsMethod   = lazyregexp.New(`^\s*(?:(?:public|private|protected|static|readonly|override|abstract|async|get|set)\s+)*\*?\s*(#?[\w$]+)\s*(?:<[^<>()]*>)?\([^;]*$`)
)

// jsWords look like methods and are not.
var jsWords = map[string]bool{"if": true, "for": true, "while": true, "switch": true, "catch": true, "return": true,
	"function": true, "with": true, "await": true, "new": true, "throw": true, "typeof": true, "super": true, "do": true, "else": true}

// outlineJS finds declarations by line, and their nesting by braces. It is no
// parser: a regular expression that holds a quote can mislead it, for the rest of
// that line only.
func outlineJS(text string) (all []symbol) {
	depth, inComment, inTemplate := 0, false, false
	// classes are the depths of the bodies of classes that are open.
	var open []int // the depth in which each symbol that is open was declared
	var classes []bool
	for i, l := range lines(text) {
		l = clipExact(l, maxShownLine)
		for len(open) > 0 && depth <= open[len(open)-1] {
			open, classes = open[:len(open)-1], classes[:len(classes)-1]
		}
		if !inComment && !inTemplate {
			if name, class := jsSymbol(l, len(open) > 0 && classes[len(classes)-1] && depth == open[len(open)-1]+1); name != "" {
				all = append(all, symbol{i + 1, len(open), name})
				open, classes = append(open, depth), append(classes, class)
			}
		}
		before := depth
		depth, inComment, inTemplate = jsBraces(l, depth, inComment, inTemplate)
		// What opened no brace on its line, and is not waiting for one, is over.
		if len(open) > 0 && open[len(open)-1] == before && depth <= before && !strings.HasSuffix(strings.TrimSpace(l), "(") && !strings.HasSuffix(strings.TrimSpace(l), ",") {
			open, classes = open[:len(open)-1], classes[:len(classes)-1]
		}
	}
	return all
}

// jsSymbol names what a line declares.
func jsSymbol(l string, inClass bool) (name string, class bool) {
	if m := jsDeclares.FindStringSubmatch(l); m != nil {
		name = strings.TrimRight(strings.Join(strings.Fields(m[1]), " "), " =")
		return name, strings.HasPrefix(name, "class") || strings.HasPrefix(name, "interface")
	}
	if m := jsAssigns.FindStringSubmatch(l); m != nil {
		return m[1], false
	}
	if inClass {
		if m := jsMethod.FindStringSubmatch(l); m != nil && !jsWords[m[1]] {
			return m[1] + "()", false
		}
	}
	return "", false
}

// jsBraces counts the braces of one line that stand in no string and no comment.
func jsBraces(l string, depth int, comment, template bool) (int, bool, bool) {
	var quote byte
	for i := 0; i < len(l); i++ {
		b := l[i]
		switch {
		case comment:
			if b == '*' && i+1 < len(l) && l[i+1] == '/' {
				comment = false
				i++
			}
		case template:
			if b == '\\' {
				i++
			} else if b == '`' {
				template = false
			}
		case quote != 0:
			if b == '\\' {
				i++
			} else if b == quote {
				quote = 0
			}
		case b == '/' && i+1 < len(l) && l[i+1] == '/':
			return depth, false, false
		case b == '/' && i+1 < len(l) && l[i+1] == '*':
			comment = true
			i++
		case b == '"' || b == '\'':
			quote = b
		case b == '`':
			template = true
		case b == '{':
			depth++
		case b == '}':
			depth = max(depth-1, 0)
		}
	}
	return depth, comment, template
}

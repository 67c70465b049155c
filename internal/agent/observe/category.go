package observe

import (
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

// Categorize classes a failure from how it ended and from what it said. stderr
// is the captured text; stdout is looked at only where a shell tells nothing.
func Categorize(phase api.Phase, exit api.Exit, stderr string) api.Category {
	switch exit.Cause {
	case api.CauseTimeout, api.CauseCPUTime:
		return api.CategoryTimeout
	case api.CauseMemory:
		return api.CategoryMemory
	case api.CauseOutput:
		return api.CategoryOutputLimit
	case api.CauseKilled, api.CauseLost:
		return api.CategoryUnknown
	}
	if exit.Code == 127 && notFound.MatchString(stderr) {
		return api.CategoryCommand
	}
	c := fromText(stderr)
	if phase == api.PhaseCompile && c == api.CategoryUnknown {
		return api.CategorySyntax
	}
	if phase == api.PhaseInstall && c != api.CategoryNetwork && c != api.CategoryDisk && c != api.CategoryMemory {
		return api.CategoryInstall
	}
	if c != api.CategoryUnknown {
		return c
	}
	switch exit.Code {
	case 127:
		return api.CategoryCommand
	case 126:
		return api.CategoryPermission
	case 137:
		// A SIGKILL that Hortus did not send is the kernel's, for memory.
		return api.CategoryMemory
	}
	return api.CategoryUnknown
}

var (
	notFound = lazyregexp.New(`(?m)(command not found|: not found|No such file or directory)\s*$`)
	// pyLast is the line that ends a traceback.
	pyLast = lazyregexp.New(`(?m)^((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Expired|NotFound))\b(?::\s?(.*))?$`)
	// jsError is the line that names an uncaught error of Node.
	jsError = lazyregexp.New(`(?m)^(?:Uncaught )?(?:node:\S+:\d+\s+)?((?:[A-Z]\w*)?Error)(?: \[(\w+)\])?: (.*)$`)
	jsCode  = lazyregexp.New(`\bcode: '([A-Z_]+)'`)
)

// textual patterns come before the names of errors, because they say more.
var textual = []struct {
	has string
	is  api.Category
}{
	{"JavaScript heap out of memory", api.CategoryMemory},
	{"Array buffer allocation failed", api.CategoryMemory},
	{"Cannot allocate memory", api.CategoryMemory},
	{"No space left on device", api.CategoryDisk},
	{"Disk quota exceeded", api.CategoryDisk},
	{"ENOSPC", api.CategoryDisk},
	{"Cannot use import statement outside a module", api.CategorySyntax},
	{"require is not defined in ES module scope", api.CategoryName},
	{"Temporary failure in name resolution", api.CategoryNetwork},
	{"Name or service not known", api.CategoryNetwork},
	{"Network is unreachable", api.CategoryNetwork},
	{"Failed to establish a new connection", api.CategoryNetwork},
	{"Connection refused", api.CategoryNetwork},
	{"ENOTFOUND", api.CategoryNetwork},
	{"EAI_AGAIN", api.CategoryNetwork},
	{"ECONNREFUSED", api.CategoryNetwork},
	{"ENETUNREACH", api.CategoryNetwork},
}

func fromText(stderr string) api.Category {
	for _, t := range textual {
		if strings.Contains(stderr, t.has) {
			return t.is
		}
	}
	if m := pyLast.FindAllStringSubmatch(stderr, -1); m != nil && strings.Contains(stderr, `File "`) {
		last := m[len(m)-1]
		return python(last[1], last[2])
	}
	if m := jsError.FindStringSubmatch(stderr); m != nil {
		return node(m[1], m[2], m[3], stderr)
	}
	if m := jsCode.FindStringSubmatch(stderr); m != nil {
		return errno(m[1])
	}
	if c := compiled(stderr); c != api.CategoryUnknown {
		return c
	}
	switch {
	case strings.Contains(stderr, "can't open file"), strings.Contains(stderr, "No such file or directory"):
		return api.CategoryMissingFile
	case strings.Contains(stderr, "ermission denied"):
		return api.CategoryPermission
	case strings.Contains(stderr, "syntax error"), strings.Contains(stderr, "unexpected EOF"):
		return api.CategorySyntax
	}
	return api.CategoryUnknown
}

func python(name, text string) api.Category {
	switch name[strings.LastIndexByte(name, '.')+1:] {
	case "ModuleNotFoundError", "ImportError":
		return api.CategoryImport
	case "SyntaxError", "IndentationError", "TabError":
		return api.CategorySyntax
	case "NameError", "UnboundLocalError":
		return api.CategoryName
	case "TypeError", "AttributeError":
		return api.CategoryType
	case "ValueError", "KeyError", "IndexError", "ZeroDivisionError", "OverflowError", "UnicodeDecodeError",
		"UnicodeEncodeError", "JSONDecodeError", "AssertionError", "StatisticsError", "RecursionError", "EOFError", "StopIteration",
		"InvalidOperation":
		return api.CategoryValue
	case "FileNotFoundError", "NotADirectoryError", "IsADirectoryError", "FileExistsError":
		return api.CategoryMissingFile
	case "PermissionError":
		return api.CategoryPermission
	case "MemoryError":
		return api.CategoryMemory
	case "ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "URLError", "HTTPError", "gaierror", "SSLError":
		return api.CategoryNetwork
	case "TimeoutError", "TimeoutExpired":
		return api.CategoryTimeout
	case "OSError":
		if strings.Contains(text, "Read-only file system") {
			return api.CategoryPermission
		}
	}
	return api.CategoryUnknown
}

func node(name, code, text, stderr string) api.Category {
	switch code {
	case "ERR_MODULE_NOT_FOUND", "ERR_UNKNOWN_BUILTIN_MODULE":
		return api.CategoryImport
	}
	if strings.HasPrefix(text, "Cannot find module") || strings.HasPrefix(text, "Cannot find package") {
		// Node says the same of the program that it was given to run.
		if strings.Contains(stderr, "requireStack: []") {
			return api.CategoryMissingFile
		}
		return api.CategoryImport
	}
	if c := errno(strings.SplitN(text, ":", 2)[0]); c != api.CategoryUnknown {
		return c
	}
	switch name {
	case "SyntaxError":
		if strings.Contains(text, "does not provide an export named") {
			return api.CategoryImport
		}
		if strings.Contains(text, "in JSON at position") || strings.Contains(stderr, "at JSON.parse") {
			return api.CategoryValue
		}
		return api.CategorySyntax
	case "ReferenceError":
		return api.CategoryName
	case "TypeError":
		return api.CategoryType
	case "RangeError", "URIError", "AssertionError":
		return api.CategoryValue
	}
	return api.CategoryUnknown
}

func errno(code string) api.Category {
	switch code {
	case "ENOENT", "ENOTDIR", "EISDIR":
		return api.CategoryMissingFile
	case "EACCES", "EPERM", "EROFS":
		return api.CategoryPermission
	case "MODULE_NOT_FOUND", "ERR_MODULE_NOT_FOUND":
		return api.CategoryImport
	}
	return api.CategoryUnknown
}

// said are what compilers and interpreters other than those of Python and JavaScript
// write, the most telling first.
var said = []struct {
	re *lazyregexp.Regexp
	is api.Category
}{
	// A package, a header or a crate that is not there.
	{lazyregexp.New(`no required module provides package|cannot find package "|is not in std|can't find crate for|unresolved import|error: package [\w.]+ does not exist|fatal error: [\w./+-]+: No such file|cannot load such file --|Can't locate \S+\.pm in @INC|error TS2307:`), api.CategoryImport},
	// Names.
	{lazyregexp.New(`: undefined: |error\[E04(?:25|33)\]|error: cannot find symbol|undeclared \(first use|was not declared in this scope|undefined local variable or method|\(NameError\)|\(NoMethodError\)|Call to undefined function|Undefined (?:constant|variable)|Undefined subroutine|error TS2304:`), api.CategoryName},
	// Types.
	{lazyregexp.New(`cannot use .* as .* value|mismatched types|error\[E0308\]|incompatible types|NullPointerException|ClassCastException|invalid memory address or nil pointer|\(TypeError\)|PHP Fatal error:\s+Uncaught TypeError`), api.CategoryType},
	// Memory.
	{lazyregexp.New(`OutOfMemoryError|fatal error: runtime: out of memory|std::bad_alloc|memory allocation of \d+ bytes failed|Allowed memory size of|failed to allocate memory \(NoMemoryError\)`), api.CategoryMemory},
	// Files.
	{lazyregexp.New(`: no such file or directory|FileNotFoundException|NoSuchFileException|NotFound, message: "No such file|\(Errno::ENOENT\)|Failed to open stream: No such file`), api.CategoryMissingFile},
	// What the program did with its values.
	{lazyregexp.New(`panic: |panicked at |Exception in thread "|terminate called after throwing|PHP Fatal error:\s+Uncaught |\((?:ZeroDivisionError|ArgumentError|IndexError|KeyError|RangeError|FloatDomainError|RuntimeError)\)|Illegal division by zero`), api.CategoryValue},
	// Everything else that a parser refuses.
	{lazyregexp.New(`syntax error|Parse error:|error: expected |error\[E\d+\]|error TS\d+:|\.(?:go|rs|java|c|cpp|cc):\d+(?::\d+)?: (?:error: )?\S`), api.CategorySyntax},
}

// compiled classes what those languages write.
func compiled(stderr string) api.Category {
	if strings.TrimSpace(stderr) == "" {
		return api.CategoryUnknown
	}
	for _, s := range said {
		if s.re.MatchString(stderr) {
			return s.is
		}
	}
	return api.CategoryUnknown
}

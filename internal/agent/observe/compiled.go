package observe

import (
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

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

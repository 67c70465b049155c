package gate

import "hortus.dev/internal/platform/lazyregexp"

// rule is what the lines that match it use.
type signRule struct {
	uses string
	re   *lazyregexp.Regexp
}

var pythonSigns = []signRule{
	{"os._exit", lazyregexp.New(`\b_exit\b|\bos\.(abort|kill|killpg|execv\w*|execl\w*|posix_spawn\w*)\b`)},
	{"sys.exit", lazyregexp.New(`\bsys\.exit\b|\bSystemExit\b|^\s*(quit|exit)\(`)},
	{"atexit", lazyregexp.New(`\batexit\b`)},
	{"fork", lazyregexp.New(`\bos\.fork|\bforkpty\b`)},
	{"signals", lazyregexp.New(`\bsignal\.\w*(alarm|signal|kill)`)},
	{"the test runner", lazyregexp.New(`\b_?unittest\b|\b_?pytest\b|\bpluggy\b|\bdoctest\b|\bTestCase\b|\bSkipTest\b|\bconftest\b`)},
	{"module loading internals", lazyregexp.New(`\bsys\.(modules|meta_path|path_hooks|path)\b|\bimportlib\b|__import__`)},
	{"stack frames of callers", lazyregexp.New(`_getframe|\bf_back\b|\bf_locals\b|\btb_frame\b|\binspect\b|\bcurrentframe\b|\bgc\.|\bimport gc\b|\bctypes\b|\bcffi\b`)},
	{"tracing", lazyregexp.New(`\bset(trace|profile)\b|\bsys\.monitoring\b`)},
	{"builtins", lazyregexp.New(`\bbuiltins\b|__builtins__|__build_class__`)},
	{"custom equality", lazyregexp.New(`\b__(eq|ne|instancecheck|subclasscheck)__\b`)},
	{"code generated at run time", lazyregexp.New(`\b(exec|eval|compile)\s*\(|\bmarshal\b|\b__code__\b|\bsetattr\s*\(|\b__class__\s*=`)},
	{"files of other processes", lazyregexp.New(`/proc/|\bos\.(write|dup2?|fdopen|ptrace)\b|__del__`)},
}

var javascriptSigns = []signRule{
	{"process.exit", lazyregexp.New(`\bprocess\s*\??\.\s*(exit|abort|kill|exitCode)\b|\breallyExit\b`)},
	{"process events", lazyregexp.New(`\bprocess\s*\.\s*(on|once|addListener|prependListener|removeAllListeners|emit|binding|stdout|stderr|argv|env\.NODE)\b|\bprocess\s*\[`)},
	{"the test runner", lazyregexp.New(`node:test|['"]test['"]|\b(jest|vitest|mocha)\b|NODE_TEST|\bafterEach\b|\bbeforeEach\b`)},
	{"assertions", lazyregexp.New(`\bassert\b`)},
	{"code generated at run time", lazyregexp.New(`\beval\s*\(|\bnew\s+Function\b|\bFunction\s*\(|\bvm\b.*\brun\w*\(|\brequire\.(cache|main|extensions)\b|\bmodule\.(parent|constructor|children)\b|\bModule\._`)},
	{"child processes", lazyregexp.New(`\bchild_process\b|\bworker_threads\b|\binspector\b`)},
	{"objects that hide their type", lazyregexp.New(`\bnew\s+Proxy\b|\bSymbol\.(toPrimitive|toStringTag|hasInstance|species)\b|\bvalueOf\b|\b__proto__\b|\bsetPrototypeOf\b|\bgetPrototypeOf\b`)},
	{"shared objects", lazyregexp.New(`\bglobalThis\b|\bglobal\.|\bObject\.(defineProperty|defineProperties|assign)\s*\(\s*(global|process|Object|Array|Function|Promise|\w+\.prototype)|\b(Object|Array|Function|Promise|String|Number|Error)\.prototype\.\w+\s*=|\bObject\.(is|keys)\s*=`)},
	{"the output channel of the test runner", lazyregexp.New(`\bv8\b|\bwriteSync\s*\(\s*[012]\b|/proc/|\bfd\s*:\s*1\b`)},
}

var golangSigns = []signRule{
	{"os.Exit", lazyregexp.New(`\b(os|syscall|unix)\.(Exit|Kill|Exec|ForkExec)\b|\blog\.Fatal|\bSIGKILL\b|\bruntime\.Goexit\b|\bos\.FindProcess\b`)},
	{"a function that runs before the tests", lazyregexp.New(`^\s*func\s+init\s*\(\s*\)|^var\s+\w+.*=\s*func\(`)},
	{"package testing", lazyregexp.New(`"testing"|\btesting\.|"flag"|\bos\.Args\b|\bflag\.`)},
	{"unsafe memory", lazyregexp.New(`"unsafe"|\bunsafe\.|go:linkname|import\s+"C"|"plugin"`)},
	{"stack frames of callers", lazyregexp.New(`\bruntime\.(Callers?|FuncForPC|Stack)\b|"runtime/debug"`)},
	{"output lines that imitate go test", lazyregexp.New(`\\x16|\\u0016|\\026|---\s*(PASS|FAIL|SKIP)|===\s*RUN`)},
	{"files of other processes", lazyregexp.New(`/proc/|\bos\.(Getppid|NewFile)\b`)},
}

var rustSigns = []signRule{
	{"process::exit", lazyregexp.New(`\bprocess::(exit|abort|Command)\b|\blibc::`)},
	{"the test harness", lazyregexp.New(`cfg!?\(.*\btest\b|\btest result\b|\btest .* \.\.\. ok`)},
	{"unsafe code", lazyregexp.New(`\bunsafe\b|\bextern\b|#\[ctor\]|\blink_section\b`)},
	{"custom equality", lazyregexp.New(`\bimpl\b.*\bPartialEq\b`)},
	{"a panic handler", lazyregexp.New(`\bpanic::(set_hook|take_hook|catch_unwind)\b|\bcatch_unwind\b`)},
}

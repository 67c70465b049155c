package gate

import (
	"bytes"
	"path"
	"strconv"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// Sign is a line that can make a run of tests say what it should not.
type Sign struct {
	Path string
	Line int // from 1
	Uses string
}

// MaxSigns bounds what InPatch finds.
const MaxSigns = 20

// maxSignLine is how much of a line is looked at, in bytes.
const maxSignLine = 4 << 10

// Signs finds the signs in the lines that a patch in git's format adds, but for those in
// files that skip names. Lines of a kind that repeat in a file count once.
func Signs(patch []byte, skip func(path string) bool) (out []Sign) {
	var (
		file  string
		rules []signRule
		line  int
		left  int // lines of the hunk's new side that are still to come
		seen  = map[[2]string]bool{}
	)
	for len(patch) > 0 && len(out) < MaxSigns {
		text, rest, _ := bytes.Cut(patch, []byte{'\n'})
		patch = rest
		switch {
		case left > 0 && len(text) > 0 && text[0] == '+':
			for _, r := range rules {
				key := [2]string{file, r.uses}
				if !seen[key] && r.re.Match(text[1:min(len(text), maxSignLine)]) && len(out) < MaxSigns {
					seen[key] = true
					out = append(out, Sign{file, line, r.uses})
				}
			}
			line++
			left--
		case left > 0 && (len(text) == 0 || text[0] == ' '):
			line++
			left--
		case left > 0: // removed, or "\ No newline"
		case bytes.HasPrefix(text, []byte("+++ ")):
			file = patchPath(string(text[4:]))
			if rules = signRulesOf(file); file == "" || skip(file) {
				rules = nil
			}
		case bytes.HasPrefix(text, []byte("@@ ")):
			if m := hunk.FindSubmatch(text); m != nil {
				line, _ = strconv.Atoi(string(m[1]))
				left = 1
				if len(m[2]) > 0 {
					left, _ = strconv.Atoi(string(m[2]))
				}
			}
		}
	}
	return out
}

var hunk = lazyregexp.New(`^@@ -\d+(?:,\d+)? \+(\d{1,9})(?:,(\d{1,9}))? @@`)

// patchPath is the path of a patch's header, without git's quotes and prefix.
func patchPath(s string) string {
	s = strings.TrimRight(s, "\t\r")
	if strings.HasPrefix(s, `"`) {
		if u, err := strconv.Unquote(s); err == nil {
			s = u
		}
	}
	rest, ok := strings.CutPrefix(s, "b/")
	if !ok {
		return "" // /dev/null
	}
	return rest
}

func signRulesOf(file string) []signRule {
	switch ext := strings.ToLower(path.Ext(file)); ext {
	case ".py", ".pyi", ".pyx":
		return pythonSigns
	case ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx":
		return javascriptSigns
	case ".go":
		return golangSigns
	case ".rs":
		return rustSigns
	case ".java", ".kt", ".scala", ".groovy", ".rb", ".php", ".cs":
		return otherSigns
	}
	return nil
}

// signRule is what the lines that match it use.
type signRule struct {
	uses string
	re   *lazyregexp.Regexp
}

// Names of tests in a text, and a fixed moment: what a program compares with that behaves while it is tested only.
const (
	testFile = `["'][^"']*(\btest_\w*\.\w|\w_test\.\w|\w\.(test|spec)\.\w|\btests?/|[/.]tests?["']|^tests?["']|conftest|__tests__)`
	lookUp   = `\b(exists|isfile|is_file|isdir|is_dir|glob|rglob|open|listdir|scandir|stat|lstat|access|readfile|read_file|readdir|Path|existsSync|statSync|accessSync|readFileSync|readdirSync|Stat|Open|ReadFile|ReadDir|Glob)\s*\(`
	inGate   = `["'](CI|PYTHONDONTWRITEBYTECODE|GIT_TERMINAL_PROMPT)["']`
	moment   = `\b(20\d\d\b|1[5-9]\d{8,})`
	asked    = "a question whether it is tested"
	chance   = "a result by chance or date"
)

// answer is what a program has that knows an input of its tests: a comparison with a list of values, with its text, or of several
// variables with numbers, and a table of results that is asked for the length or text of an input.
const (
	answer    = "the answer to one input"
	twoValues = `\b(?:if|elif|case|when|return)\b.*==\s*-?(?:[2-9]|\d\d+|\d*\.\d+)\s*(?:&&|and)\s.*==\s*-?(?:[2-9]|\d\d+|\d*\.\d+)`
)

var pythonSigns = []signRule{
	{answer, lazyregexp.New(`\bif\b.*==\s*[\[({]\s*['"\d-][^\])}]*,|\bif\b.*\b(?:str|repr|tuple|list)\(.*==\s*['"\[(]|` +
		`\}\s*\[\s*(?:str|repr|tuple|len)\(|\breturn\s+-?\d[\d.]*\s+if\s+len\(.*==|` + twoValues)},
	{asked, lazyregexp.New(`\bsys\.orig_argv\b|\bargv\[0\]|(?i:test).*\bsys\.argv\b|\bsys\.argv\b.*(?i:test)|__main__\.|\bimport\s+__main__|PYTEST_|UNITTEST|\bgetppid\b|` +
		`(environ|getenv).*` + inGate + `|` + lookUp + `.*` + testFile)},
	{chance, lazyregexp.New(`\b(now|today|utcnow|time)\(.*(<|>|==|!=).*` + moment + `|` + moment + `.*(<|>|==|!=).*\b(now|today|utcnow|time)\(|\brandom\(\)\s*[<>]=?\s*[\d.]+|\b(randint|randrange|choice|getrandbits)\(.*\)\s*[=!<>]=?\s*[\d.TF]|` + moment + `.*[<>]=?.*\.year\b|\.year\s*[<>=!]=?\s*` + moment)},
	{"stack traces", lazyregexp.New(`\b(extract_stack|format_stack|print_stack|walk_stack|StackSummary|extract_tb|tb_next)\b`)},
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
	{answer, lazyregexp.New(`\b(?:String|JSON\.stringify)\(.*\)\s*===?\s*['"` + "`" + `]|\.(?:join|toString)\(.*\)\s*===?\s*['"` + "`" + `][\d[{-]|` +
		`\}\s*\[\s*(?:String|JSON\.stringify)\(|\[[\d., -]+,[\d., -]+\]\s*\[\s*\w+\.length|` + strings.ReplaceAll(twoValues, "==", "===?"))},
	{asked, lazyregexp.New(`\b(JEST_WORKER_ID|VITEST|MOCHA|NODE_TEST_CONTEXT)\b|\benv\b.*\bCI\b|\b(describe|it|test|expect)\s*[!=]==?\s*['"]|typeof\s+(describe|it|test|expect|jest)\b|\bexecArgv\b|\bargv0\b|` + lookUp + `.*` + testFile)},
	{chance, lazyregexp.New(`\bDate\b.*(<|>|===?|!==?).*` + moment + `|` + moment + `.*(<|>|===?|!==?).*\bDate\b|\bgetFullYear\(\)\s*[<>=!]=*\s*` + moment + `|\bMath\.random\(\)\s*[<>]=?\s*[\d.]+`)},
	{"stack traces", lazyregexp.New(`\)\s*\.stack\b|\bcaptureStackTrace\b|\bprepareStackTrace\b|\bstackTraceLimit\b|\bgetCallSites?\b|\.stack\b.*(includes|match|split|indexOf|test)\b`)},
	{"process.exit", lazyregexp.New(`\bprocess\s*\??\.\s*(exit|abort|kill|exitCode)\b|\breallyExit\b`)},
	{"process events", lazyregexp.New(`\bprocess\s*\.\s*(on|once|addListener|prependListener|removeAllListeners|emit|binding|stdout|stderr|argv|env\.NODE)\b|\bprocess\s*\[`)},
	{"the test runner", lazyregexp.New(`node:test|['"]test['"]|\b(jest|vitest|mocha)\b|NODE_TEST|\bafterEach\b|\bbeforeEach\b`)},
	{"assertions", lazyregexp.New(`\bassert\b`)},
	{"code generated at run time", lazyregexp.New(`\beval\s*\(|\bnew\s+Function\b|\bFunction\s*\(|\bvm\b.*\brun\w*\(|\bModule\._`)},
	{"loaded modules", lazyregexp.New(`\brequire\.(cache|main|extensions)\b|\bmodule\.(parent|constructor|children)\b`)},
	{"child processes", lazyregexp.New(`\bchild_process\b|\bworker_threads\b|\binspector\b`)},
	{"objects that hide their type", lazyregexp.New(`\bnew\s+Proxy\b|\bSymbol\.(toPrimitive|toStringTag|hasInstance|species)\b|\bvalueOf\b|\b__proto__\b|\bsetPrototypeOf\b|\bgetPrototypeOf\b`)},
	{"shared objects", lazyregexp.New(`\bglobalThis\b|\bglobal\.|\bObject\.(defineProperty|defineProperties|assign)\s*\(\s*(global|process|Object|Array|Function|Promise|\w+\.prototype)|\b(Object|Array|Function|Promise|String|Number|Error)\.prototype\.\w+\s*=|\bObject\.(is|keys)\s*=`)},
	{"the output channel of the test runner", lazyregexp.New(`\bv8\b|\bwriteSync\s*\(\s*[012]\b|/proc/|\bfd\s*:\s*1\b`)},
}

var golangSigns = []signRule{
	{answer, lazyregexp.New(`\bfmt\.Sprint\w*\(.*\)\s*==\s*["` + "`" + `]|\b(?:reflect\.DeepEqual|slices\.Equal|maps\.Equal|bytes\.Equal)\(.*\{\s*["\d-][^}]*,|\}\s*\[\s*(?:len|fmt\.Sprint\w*)\(|` + twoValues)},
	{asked, lazyregexp.New(`\bos\.Executable\b|\bReadBuildInfo\b|\b(Getenv|LookupEnv)\(\s*"(CI|GO_TEST|GOTEST)|` + lookUp + `.*` + testFile)},
	{chance, lazyregexp.New(`\btime\.Now\(\).*` + moment + `|` + moment + `.*\btime\.Now\(\)|\brand\.(Float64|Float32|Intn?|IntN|N|Int63n|Uint\w*)\(.*\)\s*(==|!=|<=?|>=?)\s*[\d.]+`)},
	{"os.Exit", lazyregexp.New(`\b(os|syscall|unix)\.(Exit|Kill|Exec|ForkExec)\b|\blog\.Fatal|\bSIGKILL\b|\bruntime\.Goexit\b|\bos\.FindProcess\b`)},
	{"a function that runs before the tests", lazyregexp.New(`^\s*func\s+init\s*\(\s*\)|^var\s+\w+.*=\s*func\(`)},
	{"package testing", lazyregexp.New(`"testing"|\btesting\.|"flag"|\bos\.Args\b|\bflag\.`)},
	{"unsafe memory", lazyregexp.New(`"unsafe"|\bunsafe\.|go:linkname|import\s+"C"|"plugin"`)},
	{"stack frames of callers", lazyregexp.New(`\bruntime\.(Callers?|FuncForPC|Stack)\b|"runtime/debug"`)},
	{"output lines that imitate go test", lazyregexp.New(`\\x16|\\u0016|\\026|---\s*(PASS|FAIL|SKIP)|===\s*RUN`)},
	{"files of other processes", lazyregexp.New(`/proc/|\bos\.(Getppid|NewFile)\b`)},
}

// otherSigns are for Java and its relatives, Ruby, PHP and C#.
var otherSigns = []signRule{
	{asked, lazyregexp.New(`\b(?:getenv|GetEnvironmentVariable|ENV)\b.*` + inGate + `|\b(?:RSpec|Minitest|PHPUnit|NUnit|xunit)\b|org\.junit|java\.class\.path|sun\.java\.command|RAILS_ENV|APP_ENV|\$PROGRAM_NAME|\$_SERVER\[['"]argv|GetEntryAssembly`)},
	{"the end of the process", lazyregexp.New(`\bSystem\.exit\b|Runtime\.getRuntime\(\)\s*\.\s*(?:halt|exit|addShutdownHook)|\bexitProcess\(|\b(?:exit!|at_exit|abort)\b|^\s*(?:exit|die)\b\s*[(;]|register_shutdown_function|Environment\.(?:Exit|FailFast)|ProcessExit`)},
	{"stack traces", lazyregexp.New(`getStackTrace|StackWalker|\bcaller(?:_locations)?\b|debug_backtrace|\bStackTrace\b|\bStackFrame\b`)},
	{"custom equality", lazyregexp.New(`\bboolean\s+equals\s*\(|\bdef\s+(?:==|eql\?|equal\?)|\boverride\s+(?:bool\s+Equals|fun\s+equals)\b`)},
	{chance, lazyregexp.New(`(?:LocalDate|Instant|LocalDateTime|Date|Time|DateTime|date)\b.*\b(?:now|today|Now|UtcNow|time)?\b.*(?:<|>|isBefore|isAfter).*` + moment)},
}

var rustSigns = []signRule{
	{asked, lazyregexp.New(`\bcurrent_exe\b|\bthread::current\(\)\s*\.name\b|\bdebug_assertions\b|\b(RUST_TEST\w*|NEXTEST\w*)\b|\bvar(_os)?\(\s*"CI"|\bargs(_os)?\(\).*test|` + lookUp + `.*` + testFile)},
	{"stack traces", lazyregexp.New(`\bBacktrace\b`)},
	{"process::exit", lazyregexp.New(`\bprocess::(exit|abort|Command)\b|\blibc::`)},
	{"the test harness", lazyregexp.New(`cfg!?\(.*\btest\b|\btest result\b|\btest .* \.\.\. ok`)},
	{"unsafe code", lazyregexp.New(`\bunsafe\b|\bextern\b|#\[ctor\]|\blink_section\b`)},
	{"custom equality", lazyregexp.New(`\bimpl\b.*\bPartialEq\b`)},
	{"a panic handler", lazyregexp.New(`\bpanic::(set_hook|take_hook|catch_unwind)\b|\bcatch_unwind\b`)},
}

package api

import (
	"encoding/base64"
	"encoding/json"
)

// Language is what a program is written in.
type Language string

const (
	Python     Language = "python"
	JavaScript Language = "javascript"
	TypeScript Language = "typescript"
	Go         Language = "go"
	Rust       Language = "rust"
	Java       Language = "java"
	C          Language = "c"
	CPlusPlus  Language = "c++"
	Bash       Language = "bash"
	Ruby       Language = "ruby"
	PHP        Language = "php"
	Perl       Language = "perl"
)

// OutputKind is what a verified program must have produced.
type OutputKind string

const (
	// OutputText: something readable on stdout.
	OutputText OutputKind = "text"
	// OutputJSON: stdout is one JSON value.
	OutputJSON OutputKind = "json"
	// OutputFile: the files of ExecutionPlan.Files exist and are not empty.
	OutputFile OutputKind = "file"
	// OutputNone: the exit code alone decides.
	OutputNone OutputKind = "none"
)

// PlanRequest is what the Planner gets: the one message that holds the sentence.
type PlanRequest struct {
	Sentence string `json:"sentence"`
	// Files are those that came with the sentence; without their content.
	Files []InputFile `json:"files,omitempty"`
	// Schema is a JSON Schema for what the program prints; see CreateTask.Schema.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// ExecutionPlan is what the Planner makes and the Coder gets. It never holds the
// sentence itself.
type ExecutionPlan struct {
	Language     Language `json:"language"`
	Dependencies []string `json:"dependencies,omitempty"`
	// Shell runs the artifact's commands; "bash" or "sh".
	Shell string `json:"shell"`
	// Task is what to do, in the Planner's words.
	Task string `json:"task"`
	// Parameters are the values read from the request (numbers, names, code).
	Parameters map[string]string `json:"parameters,omitempty"`
	Output     OutputKind        `json:"output"`
	// Files are the paths, relative to the workspace, that the program must
	// leave behind when Output is OutputFile.
	Files []string `json:"files,omitempty"`
	// Compile and Run are the usual shell commands for a program of one file in that
	// language. The Planner's model leaves them out; Hortus fills them in.
	Compile string `json:"compile,omitempty"`
	Run     string `json:"run,omitempty"`
	// Checks are commands that must succeed after the program did. They are the
	// Planner's: who writes the program has no say in them.
	Checks []Check `json:"checks,omitempty"`
	// Schema is the JSON Schema of the request. Hortus fills it in; Output is then OutputJSON.
	Schema json.RawMessage `json:"schema,omitempty" schema:"-"`
	// Inputs are the files that came with the request, without their content. Hortus
	// fills them in; a program must not have files of the same paths.
	Inputs []InputFile `json:"inputs,omitempty" schema:"-"`
}

// Check is a shell command that looks at what a program left. It runs in the program's
// directory, in the same sandbox; the variable OUTPUT names a file with all that the
// program wrote to stdout. Exit code 0 means that it holds.
type Check struct {
	Name    string `json:"name"` // what it shows, in a few words
	Command string `json:"command"`
}

// CheckResult is how a check ended.
type CheckResult struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Output is the end of what it printed, where it failed.
	Output string `json:"output,omitempty"`
}

// CodeArtifact is a program: what the Coder and the Debugger make and the
// Executor gets. It is complete: running it needs nothing else.
type CodeArtifact struct {
	Language Language `json:"language"`
	Files    []File   `json:"files"`
	// Install is a shell command that prepares the sandbox; may be empty.
	Install string `json:"install,omitempty"`
	// Compile is a shell command that makes a program of the files; may be empty. It
	// has the time of the installation.
	Compile string `json:"compile,omitempty"`
	// Run is the shell command that runs the program.
	Run   string `json:"run"`
	Shell string `json:"shell,omitempty"`
	// Output and Expect say what counts as success beside exit code 0.
	Output OutputKind `json:"output,omitempty"`
	Expect []string   `json:"expect,omitempty"`
	// Limits and timeouts that differ from the task's; zero keeps them.
	InstallTimeoutMS int64 `json:"installTimeoutMs,omitempty"`
	RunTimeoutMS     int64 `json:"runTimeoutMs,omitempty"`
	// Note says, for a person, what this version is or what was changed.
	Note string `json:"note,omitempty"`
}

// File is one file of an artifact.
type File struct {
	// Path is relative to the workspace, slash-separated, without "..".
	Path    string `json:"path"`
	Content string `json:"content"`
	// Executable sets the mode to 0755 instead of 0644.
	Executable bool `json:"executable,omitempty"`
	// Base64 is the content, in base64, of a file that a program made and that is not
	// UTF-8; Content is empty then. A program's own files are text.
	Base64 string `json:"base64,omitempty" schema:"-"`
}

// Bytes is the content, of either kind; nil where Base64 is none.
func (f File) Bytes() []byte {
	if f.Base64 == "" {
		return []byte(f.Content)
	}
	b, err := base64.StdEncoding.DecodeString(f.Base64)
	if err != nil {
		return nil
	}
	return b
}

// Bounds of the files that come with a request.
const (
	MaxInputFiles = 32
	MaxInputBytes = 2 << 20 // all of them together
	// MaxInputHead bounds InputFile.Head, in bytes.
	MaxInputHead = 600
)

// InputFile is a file that came with a request, for its program to read.
type InputFile struct {
	// Path is where it is in the program's directory: relative, slash-separated, without
	// "..".
	Path string `json:"path"`
	// Content is what is in it. Requests have it; records, plans and events leave it out.
	Content []byte `json:"content,omitempty"`
	// Size is the size in bytes, and Head the first lines of a text, which say nothing to
	// a model but what the data look like. Hortus sets both.
	Size int64  `json:"size,omitempty"`
	Head string `json:"head,omitempty"`
}

// Phase is the part of an attempt that ended it.
type Phase string

const (
	PhaseCheck   Phase = "check" // refused before it ran
	PhaseInstall Phase = "install"
	PhaseCompile Phase = "compile"
	PhaseRun     Phase = "run"
	PhaseVerify  Phase = "verify" // ran, but not what the plan wanted
)

// Category classes a failure, for the Debugger and for statistics.
type Category string

const (
	CategoryNone        Category = ""
	CategoryImport      Category = "missing_import"
	CategorySyntax      Category = "syntax"
	CategoryName        Category = "undefined_name"
	CategoryType        Category = "type"
	CategoryValue       Category = "value"
	CategoryMissingFile Category = "missing_file"
	CategoryPermission  Category = "permission"
	CategoryNetwork     Category = "network"
	CategoryTimeout     Category = "timeout"
	CategoryMemory      Category = "memory"
	CategoryDisk        Category = "disk"
	CategoryOutputLimit Category = "output_limit"
	CategoryInstall     Category = "install"
	CategoryPlaceholder Category = "placeholder"
	CategoryWrongOutput Category = "wrong_output"
	CategoryCommand     Category = "command_not_found"
	CategoryUnknown     Category = "unknown"
)

// ExecutionResult is what the Executor observed. It reports; it does not judge
// beyond exit codes and the output kind.
type ExecutionResult struct {
	OK    bool  `json:"ok"`
	Phase Phase `json:"phase"`
	Exit  Exit  `json:"exit"`
	// Stdout and Stderr are cut head and tail for the next role; the whole is
	// kept with the attempt. StdoutBytes and StderrBytes are the whole sizes.
	Stdout      string `json:"stdout"`
	Stderr      string `json:"stderr"`
	StdoutBytes int64  `json:"stdoutBytes"`
	StderrBytes int64  `json:"stderrBytes"`
	// Category is set when OK is false.
	Category Category `json:"category,omitempty"`
	// Missing names what was not there: the package of a missing import, or the
	// command that was not found. It is the program's own word, and bounded.
	Missing string `json:"missing,omitempty"`
	// Detail says in a sentence what was wrong, when it was not the exit code.
	Detail string `json:"detail,omitempty"`
	// CreateMS is the time until the sandbox was there, in milliseconds.
	CreateMS  int64     `json:"createMs,omitempty"`
	InstallMS int64     `json:"installMs,omitempty"`
	CompileMS int64     `json:"compileMs,omitempty"`
	RunMS     int64     `json:"runMs,omitempty"`
	Sandbox   SandboxID `json:"sandbox,omitempty"`
	Isolation string    `json:"isolation,omitempty"`
	// OutputFiles are the files that a successful program made or changed in its
	// directory, those of the plan first; LeftOut says which are missing here and why.
	OutputFiles []File   `json:"outputFiles,omitempty"`
	LeftOut     []string `json:"leftOut,omitempty"`
	// Value is what a successful program printed, where the request has a Schema. It is stored
	// with the task.
	Value json.RawMessage `json:"-"`
	// Checks are those of the plan, as far as they ran: the first that fails is the last.
	Checks []CheckResult `json:"checks,omitempty"`
	// Cautions say what a person should look at although the program did what was
	// planned, such as random numbers that are the same each time.
	Cautions []Caution `json:"cautions,omitempty"`
}

// DebugRequest is what the Debugger gets: the plan, the artifact that failed,
// what was observed, and the artifacts already tried (so that none comes back).
type DebugRequest struct {
	Plan     ExecutionPlan   `json:"plan"`
	Artifact CodeArtifact    `json:"artifact"`
	Result   ExecutionResult `json:"result"`
	Tried    []CodeArtifact  `json:"tried,omitempty"`
	// Answers are what a person answered to earlier questions, the oldest first.
	Answers []Answer `json:"answers,omitempty"`
	// Known is what fixed the same failure, or one like it, in earlier tasks, the best first.
	Known []KnownFix `json:"known,omitempty"`
}

// KnownFix is a failure of an earlier task with what fixed it. Both texts are untrusted.
type KnownFix struct {
	Failure string `json:"failure"`
	Fix     string `json:"fix"`
}

// Answer is a question of a task and the reply of a person.
type Answer struct {
	Question string `json:"question"`
	Reply    string `json:"reply"`
}

// Diagnosis is what the Debugger answers: a corrected artifact, or none with the
// question that a person must answer.
type Diagnosis struct {
	Category Category `json:"category"`
	// Cause is the root cause in a sentence.
	Cause string `json:"cause"`
	// Artifact is the next version; nil when the Debugger has no idea left.
	Artifact *CodeArtifact `json:"artifact,omitempty"`
	// Question is what a person must decide when Artifact is nil.
	Question string `json:"question,omitempty"`
}

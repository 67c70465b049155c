package code

import _ "embed" // the small programs that run code

// Each reads code from its standard input, brings back the environment that the code
// before it left, runs the code as a program of its own, and writes down at its end
// what differs from what the sandbox gave it: records that end with a NUL, NAME=VALUE
// for what was set and NAME for what was removed. What cannot be written down is said
// on standard error. A program that is killed, or replaces itself, leaves what was.
var (
	//go:embed runner.py
	pythonRunner string
	//go:embed runner.js
	nodeRunner string
	//go:embed runner.sh
	bashRunner string
)

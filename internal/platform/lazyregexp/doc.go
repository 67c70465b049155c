// Package lazyregexp compiles regular expressions when they are first used.
//
// The models without a key, the gate and the checks of a program have some 200 of them,
// and a process compiles what its packages' variables hold before main begins: 6 of the
// 25 milliseconds of processor time that a command of the CLI takes, which uses none of
// them. Go's own commands have a package of this name for the same reason.
//
//	var reName = lazyregexp.New(`^[a-z]+$`)
//
//	if reName.MatchString(name) { ... }
//
// What is compiled lives as long as the variable. Goroutines may share it. The package
// must not know what is matched.
package lazyregexp

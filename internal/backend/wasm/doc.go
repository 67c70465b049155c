// Package wasm is the backend for code that needs no operating system: WebAssembly modules, and
// JavaScript and Python by interpreters that are such modules. It needs no privilege, no
// namespace and no control group, and works on every Linux host.
//
//	b, err := wasm.New(wasm.Config{Dir: dir, Modules: modules})
//
// A machine is a guest process (package guest), which keeps the files of the sandbox in its memory
// and serves the protocol of guests, and a process for each command (package run), which runs one
// module and has given up all system calls but those of the Go runtime. A module can call the
// functions of WASI preview 1 and nothing else, and WASI knows the files of the sandbox only.
//
// There is no root file system: no shell, no package, no terminal, no port, no network. The report
// names what is missing (CapPrograms and others) and "auto" never selects the backend.
//
// The directory of a machine has the guest's socket and the compiled modules of the sandbox.
// Kill and Reclaim find its processes by package marked.
//
// The package must not know another backend, the manager's internals, or what commands mean.
package wasm

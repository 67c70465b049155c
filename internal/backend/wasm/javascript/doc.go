// Package javascript has QuickJS, a JavaScript interpreter, as a WASI command module.
//
// The module is the program qjs of QuickJS-ng, built by "make wasm-javascript" from the commit
// [Source] with Debian's clang and wasi-libc. The build is repeatable: it gives a module with the
// digest [SHA256]. LICENSE is that of QuickJS-ng.
//
//	module, err := javascript.Module()
//
// The package must not know a backend, or how modules run.
package javascript

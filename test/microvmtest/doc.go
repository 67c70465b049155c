// Package microvmtest makes the microvm backend of tests: with QEMU of this machine, a kernel of the package or directory that
// [KernelVariable] names, and a small tree of files, in which machines start fast. It allows emulation.
//
//	b := microvmtest.New(t, microvm.Config{Dir: run, Layers: layers}, shared)
//	tree := microvmtest.Tree(t, layers)
//
// The package must not know what is tested. The caller closes the backend.
package microvmtest

// Package frameworks runs the examples of examples/frameworks, in which Hortus executes for agents of
// other frameworks: those in JavaScript with the frameworks themselves and a scripted model; those in
// Python with stubs, because their packages need an index that a test cannot count on. The stubs have
// the signatures that the examples use, and their models call a tool once: they show that the examples
// run with the Python SDK, not that they fit every version of a framework.
//
// The frameworks are those of examples/frameworks/package-lock.json, in the user's cache, where .ci/run
// installs them. The package has tests only.
package frameworks

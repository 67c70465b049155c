// Package agenttest gives the tests of agent and task a place to run programs
// with the machine's own interpreters, without a sandbox. It isolates nothing and
// is for tests alone; no product package imports it.
package agenttest

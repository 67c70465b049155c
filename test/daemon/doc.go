// Package daemon tests what a whole daemon promises to its clients, accounts and operator: its
// servers, secrets, outgoing connections, images, lists, and what it keeps and removes.
//
// Each test opens a daemon with package world and reaches it over HTTP, its socket or the SDK. The
// package has only tests, and must not know what a task does with an agent: that is package agents.
package daemon

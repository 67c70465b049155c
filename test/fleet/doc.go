// Package fleet tests several daemons that share a Postgres database: that a client reaches everything through any of them, that new things
// are placed where there is capacity, and that nobody but a node is believed to be one.
//
// Each test starts a database server and the daemons in this process, with package world. The package has only tests.
package fleet

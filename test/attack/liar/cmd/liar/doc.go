// Package main is the command liar, a hostile guest for a sandbox with its own kernel.
package main

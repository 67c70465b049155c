// Package config says what Hortus is set to and where each value comes from: a
// flag, a variable of the environment, a line of the configuration file, or the
// default, the first that says something.
//
// [Settings] lists all there is. [Load] reads the environment and the file and
// gives a [Config], whose values carry their [Origin]; the command line adds its
// flags to it. A key that is not known, or a value that makes no sense, is an
// error that names its place, what is allowed and what was perhaps meant: nothing
// is read and ignored.
//
// The package reads one file and is given its environment. It must not know what
// a setting does, who uses it, or the command line's grammar, and keeps nothing
// alive.
package config

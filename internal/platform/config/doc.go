// Package config reads the settings of Hortus and the source of each value: a flag, an environment variable,
// a line of the configuration file, or the default. The first source that has the setting applies.
//
// [Settings] lists all settings. [Load] reads the environment and the file and returns a [Config], whose
// values have an [Origin]; the command line adds its flags. An unknown key or an invalid value is an error
// with its position, the allowed values and the closest known key. Nothing is ignored.
//
// The package reads one file and gets its environment as an argument. It must not know what a setting does,
// who uses it, or the grammar of the command line, and keeps no state.
//
// # Reasons
//
// The file is TOML, which has types without surprises (no is no boolean) and comments. There is
// one file and no chain of files: with a chain no user can say which value holds without a tool.
package config

// Package diagnosis explains why a host cannot run sandboxes, or runs them with weaker
// limits, and what an administrator can do about it. Its texts are shown by "hortus
// doctor" and in errors.
//
// It must not start anything: it reads /proc and /sys and the error that it is given.
//
// Nothing here has a state.
//
//	reason, fix := diagnosis.Spawn(err)
package diagnosis

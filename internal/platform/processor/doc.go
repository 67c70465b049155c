// Package processor identifies the features of this host's processor, for saved memory in which programs rely on them.
//
//	mark := processor.Features()
//
// It must not know what is saved. It has no state but what it read once.
package processor

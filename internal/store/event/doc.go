// Package event is the append-only log of facts and its fan-out to readers.
//
// A [Log] keeps one ordered stream for each task and each sandbox. Append gives
// an event its sequence number and stores it before anybody sees it; Follow
// yields what is stored after a number and then what is appended, without a gap
// and without a repeat. Facts flow one way: nobody changes or removes an event,
// and nothing below reads the log to decide what to do.
//
// A follower that is slow reads from the store at its own pace: it holds up
// neither the appender nor other followers, and it costs a bounded amount of
// memory.
//
// The package must not know what events mean, nor SQL; it stores through the
// small [Store] interface.
package event

// Package human writes values for people: sizes, durations, counts, and text from elsewhere
// that is sanitized for a terminal. It knows nothing else.
//
//	human.Size(1536)            // 1.5 KiB
//	human.Sanitize("\x1b[2J")   // \x1b[2J as text, not as an escape sequence
package human

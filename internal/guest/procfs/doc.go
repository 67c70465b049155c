// Package procfs reads the process table in /proc.
//
//	procfs.Each(func(pid int, st procfs.Stat) { rss += st.RSSPages * page })
//
// Hostile processes influence what it reads (a process chooses its own name), so it skips a
// line that it cannot parse. It keeps nothing open, sends no signals, and must not depend on
// commands or limits.
package procfs

// Package procfs reads the process table in /proc.
//
//	procfs.Each(func(pid int, st procfs.Stat) { rss += st.RSSPages * page })
//
// It reads what hostile processes may influence (a process chooses its own name), so a line
// that it cannot parse is skipped. It keeps nothing open, sends no signals, and knows
// nothing of commands or limits.
package procfs

// Package lessons has the statements about the tables lesson and lesson_text: what tasks learned.
//
//	rows := lessons.Table{Write: write, Read: read, Explain: explain}
//	l, err := rows.PutLesson(ctx, l)
//
// A lesson is in lesson, and the words of its failure are in the full-text index lesson_text, which triggers keep
// equal to it. The package must not know how a database is opened or closed, or its other tables. Package sqlite
// embeds the [Table].
package lessons

// Package lessons has the statements about the tables lesson, lesson_text and lesson_vector: what tasks learned.
//
//	rows := lessons.Table{Write: write, Read: read, Explain: explain}
//	l, err := rows.PutLesson(ctx, l)
//
// A lesson is in lesson, and the words of its failure are in the full-text index lesson_text, which triggers keep
// equal to it. Its vector, if an embedding model made one, is in lesson_vector; a search reads those of one scope and one
// model, one after the other. The package must not know how a database is opened or closed, or its other tables. Package sqlite
// embeds the [Table].
package lessons

// Package rowjson encodes rows as JSON that keeps every byte of every Go string.
//
// Arguments, environments and file contents come from users and models and may
// hold any bytes, while JSON text is Unicode: encoding/json silently replaces
// what is not valid UTF-8. Here each byte of a wrong sequence is written as two
// characters of the range U+FDD0..U+FDEF, which Unicode sets aside for a
// program's internal use: U+FDD0 plus the high four bits, then U+FDE0 plus the
// low four. A character of that range in the original is written as its three
// bytes in the same form, so the encoding can always be undone. Text without
// either, which is nearly all, is plain JSON that any tool can read.
//
// The package must not know rows or SQL. It has no state.
package rowjson

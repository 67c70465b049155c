package meter

// events reads server-sent events in parts. It passes on the data of each.
type events struct {
	data func(b []byte) // a part of the data of an event
	end  func()         // of an event that has data

	field  []byte // the name of the field, up to the colon
	inData bool   // the rest of the line is data
	skip   bool   // the rest of the line is of another field
	space  bool   // a space that follows the colon is not data
	some   bool   // the event has data
	cr     bool   // the last byte was a carriage return
}

// maxField is the maximum size of the name of a field that is compared.
const maxField = 8

// scan reads a part.
func (e *events) scan(b []byte) {
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '\n' && e.cr {
			e.cr = false
			continue
		}
		e.cr = c == '\r'
		switch {
		case c == '\n' || c == '\r':
			e.line()
		case e.skip:
		case e.inData:
			if e.space {
				e.space = false
				if c == ' ' {
					continue
				}
			}
			j := i
			for j < len(b) && b[j] != '\n' && b[j] != '\r' {
				j++
			}
			e.data(b[i:j])
			i = j - 1
		case c == ':':
			if string(e.field) == "data" {
				e.inData, e.space = true, true
				if e.some {
					e.data([]byte("\n"))
				}
				e.some = true
			} else {
				e.skip = true
			}
		default:
			if e.field = append(e.field, c); len(e.field) > maxField {
				e.skip = true
			}
		}
	}
}

// line ends a line.
func (e *events) line() {
	blank := !e.inData && !e.skip && len(e.field) == 0
	if blank && e.some {
		e.end()
		e.some = false
	}
	e.field, e.inData, e.skip, e.space = e.field[:0], false, false, false
}

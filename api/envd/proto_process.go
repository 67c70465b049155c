package envd

func (m *Size) appendProto(b []byte) []byte {
	return appendUint(appendUint(b, 1, uint64(m.Cols)), 2, uint64(m.Rows))
}

func (m *Size) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			d.uint32(&m.Cols)
		case 2:
			d.uint32(&m.Rows)
		default:
			d.skip()
		}
	}
}

func (m *PTY) appendProto(b []byte) []byte { return appendMessage(b, 1, m.Size) }

func (m *PTY) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			decodeMessage(d, &m.Size)
		default:
			d.skip()
		}
	}
}

func (m *ProcessConfig) appendProto(b []byte) []byte {
	b = appendString(b, 1, m.Cmd)
	for _, a := range m.Args {
		b = appendStringAlways(b, 2, a)
	}
	b = appendMap(b, 3, m.Envs)
	return appendStringPtr(b, 4, m.Cwd)
}

func (m *ProcessConfig) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			d.string(&m.Cmd)
		case 2:
			if d.wire != wireBytes {
				d.skip()
				continue
			}
			if d.item() {
				var s string
				d.string(&s)
				m.Args = append(m.Args, s)
			}
		case 3:
			d.mapEntry(&m.Envs)
		case 4:
			d.stringPtr(&m.Cwd)
		default:
			d.skip()
		}
	}
}

func (m *ProcessInfo) appendProto(b []byte) []byte {
	b = appendMessage(b, 1, m.Config)
	b = appendUint(b, 2, uint64(m.PID))
	return appendStringPtr(b, 3, m.Tag)
}

func (m *ProcessInfo) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			decodeMessage(d, &m.Config)
		case 2:
			d.uint32(&m.PID)
		case 3:
			d.stringPtr(&m.Tag)
		default:
			d.skip()
		}
	}
}

func (m *Selector) appendProto(b []byte) []byte {
	if m.PID != nil {
		b = appendVarint(appendTag(b, 1, wireVarint), uint64(*m.PID))
	}
	return appendStringPtr(b, 2, m.Tag)
}

func (m *Selector) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			var v uint64
			if d.uint(&v) {
				pid := uint32(v)
				*m = Selector{PID: &pid}
			}
		case 2:
			var tag *string
			if d.stringPtr(&tag); tag != nil {
				*m = Selector{Tag: tag}
			}
		default:
			d.skip()
		}
	}
}

func (m *StartRequest) appendProto(b []byte) []byte {
	b = appendMessage(b, 1, m.Process)
	b = appendMessage(b, 2, m.PTY)
	b = appendStringPtr(b, 3, m.Tag)
	if m.Stdin != nil {
		var v byte
		if *m.Stdin {
			v = 1
		}
		b = append(appendTag(b, 4, wireVarint), v)
	}
	return b
}

func (m *StartRequest) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			decodeMessage(d, &m.Process)
		case 2:
			decodeMessage(d, &m.PTY)
		case 3:
			d.stringPtr(&m.Tag)
		case 4:
			var v uint64
			if d.uint(&v) {
				on := v != 0
				m.Stdin = &on
			}
		default:
			d.skip()
		}
	}
}

// selected is the shape of the requests that hold a selector alone.
func appendSelected(b []byte, s *Selector) []byte { return appendMessage(b, 1, s) }

func decodeSelected(d *decoder, s **Selector) {
	for d.next() {
		switch d.num {
		case 1:
			decodeMessage(d, s)
		default:
			d.skip()
		}
	}
}

func (m *ConnectRequest) appendProto(b []byte) []byte    { return appendSelected(b, m.Process) }
func (m *ConnectRequest) decodeProto(d *decoder)         { decodeSelected(d, &m.Process) }
func (m *CloseStdinRequest) appendProto(b []byte) []byte { return appendSelected(b, m.Process) }
func (m *CloseStdinRequest) decodeProto(d *decoder)      { decodeSelected(d, &m.Process) }
func (m *StreamInputStart) appendProto(b []byte) []byte  { return appendSelected(b, m.Process) }
func (m *StreamInputStart) decodeProto(d *decoder)       { decodeSelected(d, &m.Process) }

func (m *ProcessResponse) appendProto(b []byte) []byte { return appendMessage(b, 1, m.Event) }

func (m *ProcessResponse) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			decodeMessage(d, &m.Event)
		default:
			d.skip()
		}
	}
}

func (m *ProcessEvent) appendProto(b []byte) []byte {
	b = appendMessage(b, 1, m.Start)
	b = appendMessage(b, 2, m.Data)
	b = appendMessage(b, 3, m.End)
	return appendMessage(b, 4, m.Keepalive)
}

func (m *ProcessEvent) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			*m = ProcessEvent{Start: m.Start}
			decodeMessage(d, &m.Start)
		case 2:
			*m = ProcessEvent{Data: m.Data}
			decodeMessage(d, &m.Data)
		case 3:
			*m = ProcessEvent{End: m.End}
			decodeMessage(d, &m.End)
		case 4:
			*m = ProcessEvent{Keepalive: m.Keepalive}
			decodeMessage(d, &m.Keepalive)
		default:
			d.skip()
		}
	}
}

func (m *StartEvent) appendProto(b []byte) []byte {
	return appendUint(appendUint(b, 1, uint64(m.PID)), 1001, uint64(m.Offset))
}

func (m *StartEvent) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			d.uint32(&m.PID)
		case 1001:
			d.int64(&m.Offset)
		default:
			d.skip()
		}
	}
}

// The offset goes first so that the bytes come last: a sender that has them in
// place only writes in front of them (see AppendDataHead).
func (m *DataEvent) appendProto(b []byte) []byte {
	b = appendUint(b, 1001, uint64(m.Offset))
	switch {
	case m.Stdout != nil:
		b = appendBytes(b, 1, m.Stdout)
	case m.Stderr != nil:
		b = appendBytes(b, 2, m.Stderr)
	case m.PTY != nil:
		b = appendBytes(b, 3, m.PTY)
	}
	return b
}

func (m *DataEvent) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			*m = DataEvent{Offset: m.Offset}
			d.bytes(&m.Stdout)
		case 2:
			*m = DataEvent{Offset: m.Offset}
			d.bytes(&m.Stderr)
		case 3:
			*m = DataEvent{Offset: m.Offset}
			d.bytes(&m.PTY)
		case 1001:
			d.int64(&m.Offset)
		default:
			d.skip()
		}
	}
}

func (m *EndEvent) appendProto(b []byte) []byte {
	b = appendUint(b, 1, zigzag(m.ExitCode))
	b = appendBool(b, 2, m.Exited)
	b = appendString(b, 3, m.Status)
	b = appendStringPtr(b, 4, m.Error)
	return appendString(b, 1001, m.Cause)
}

func (m *EndEvent) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			d.sint32(&m.ExitCode)
		case 2:
			d.bool(&m.Exited)
		case 3:
			d.string(&m.Status)
		case 4:
			d.stringPtr(&m.Error)
		case 1001:
			d.string(&m.Cause)
		default:
			d.skip()
		}
	}
}

func (m *Empty) appendProto(b []byte) []byte { return b }

func (m *Empty) decodeProto(d *decoder) {
	for d.next() {
		d.skip()
	}
}

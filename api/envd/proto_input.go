package envd

func (m *ListResponse) appendProto(b []byte) []byte {
	for _, p := range m.Processes {
		b = appendMessage(b, 1, p)
	}
	return b
}

func (m *ListResponse) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			if d.item() {
				p := new(ProcessInfo)
				d.sub(p.decodeProto)
				m.Processes = append(m.Processes, p)
			}
		default:
			d.skip()
		}
	}
}

func (m *UpdateRequest) appendProto(b []byte) []byte {
	return appendMessage(appendMessage(b, 1, m.Process), 2, m.PTY)
}

func (m *UpdateRequest) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			decodeMessage(d, &m.Process)
		case 2:
			decodeMessage(d, &m.PTY)
		default:
			d.skip()
		}
	}
}

func (m *ProcessInput) appendProto(b []byte) []byte {
	switch {
	case m.Stdin != nil:
		b = appendBytes(b, 1, m.Stdin)
	case m.PTY != nil:
		b = appendBytes(b, 2, m.PTY)
	}
	return b
}

func (m *ProcessInput) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			*m = ProcessInput{}
			d.bytes(&m.Stdin)
		case 2:
			*m = ProcessInput{}
			d.bytes(&m.PTY)
		default:
			d.skip()
		}
	}
}

func (m *SendInputRequest) appendProto(b []byte) []byte {
	return appendMessage(appendMessage(b, 1, m.Process), 2, m.Input)
}

func (m *SendInputRequest) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			decodeMessage(d, &m.Process)
		case 2:
			decodeMessage(d, &m.Input)
		default:
			d.skip()
		}
	}
}

func (m *StreamInputRequest) appendProto(b []byte) []byte {
	b = appendMessage(b, 1, m.Start)
	b = appendMessage(b, 2, m.Data)
	return appendMessage(b, 3, m.Keepalive)
}

func (m *StreamInputRequest) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			*m = StreamInputRequest{Start: m.Start}
			decodeMessage(d, &m.Start)
		case 2:
			*m = StreamInputRequest{Data: m.Data}
			decodeMessage(d, &m.Data)
		case 3:
			*m = StreamInputRequest{Keepalive: m.Keepalive}
			decodeMessage(d, &m.Keepalive)
		default:
			d.skip()
		}
	}
}

func (m *StreamInputData) appendProto(b []byte) []byte { return appendMessage(b, 2, m.Input) }

func (m *StreamInputData) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 2:
			decodeMessage(d, &m.Input)
		default:
			d.skip()
		}
	}
}

func (m *SendSignalRequest) appendProto(b []byte) []byte {
	return appendUint(appendMessage(b, 1, m.Process), 2, uint64(m.Signal))
}

func (m *SendSignalRequest) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			decodeMessage(d, &m.Process)
		case 2:
			d.enum((*int32)(&m.Signal))
		default:
			d.skip()
		}
	}
}

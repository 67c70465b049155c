package envd

func (m *EntryInfo) appendProto(b []byte) []byte {
	b = appendString(b, 1, m.Name)
	b = appendUint(b, 2, uint64(m.Type))
	b = appendString(b, 3, m.Path)
	b = appendUint(b, 4, uint64(m.Size))
	b = appendUint(b, 5, uint64(m.Mode))
	b = appendString(b, 6, m.Permissions)
	b = appendString(b, 7, m.Owner)
	b = appendString(b, 8, m.Group)
	b = appendTime(b, 9, m.ModifiedTime)
	b = appendStringPtr(b, 10, m.SymlinkTarget)
	return appendMap(b, 11, m.Metadata)
}

func (m *EntryInfo) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			d.string(&m.Name)
		case 2:
			d.enum((*int32)(&m.Type))
		case 3:
			d.string(&m.Path)
		case 4:
			d.int64(&m.Size)
		case 5:
			d.uint32(&m.Mode)
		case 6:
			d.string(&m.Permissions)
		case 7:
			d.string(&m.Owner)
		case 8:
			d.string(&m.Group)
		case 9:
			d.time(&m.ModifiedTime)
		case 10:
			d.stringPtr(&m.SymlinkTarget)
		case 11:
			d.mapEntry(&m.Metadata)
		default:
			d.skip()
		}
	}
}

func (m *PathRequest) appendProto(b []byte) []byte { return appendString(b, 1, m.Path) }

func (m *PathRequest) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			d.string(&m.Path)
		default:
			d.skip()
		}
	}
}

func (m *EntryResponse) appendProto(b []byte) []byte { return appendMessage(b, 1, m.Entry) }

func (m *EntryResponse) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			decodeMessage(d, &m.Entry)
		default:
			d.skip()
		}
	}
}

func (m *MoveRequest) appendProto(b []byte) []byte {
	return appendString(appendString(b, 1, m.Source), 2, m.Destination)
}

func (m *MoveRequest) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			d.string(&m.Source)
		case 2:
			d.string(&m.Destination)
		default:
			d.skip()
		}
	}
}

func (m *ListDirRequest) appendProto(b []byte) []byte {
	return appendUint(appendString(b, 1, m.Path), 2, uint64(m.Depth))
}

func (m *ListDirRequest) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			d.string(&m.Path)
		case 2:
			d.uint32(&m.Depth)
		default:
			d.skip()
		}
	}
}

func (m *ListDirResponse) appendProto(b []byte) []byte {
	for _, e := range m.Entries {
		b = appendMessage(b, 1, e)
	}
	return b
}

func (m *ListDirResponse) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			if d.item() {
				e := new(EntryInfo)
				d.sub(e.decodeProto)
				m.Entries = append(m.Entries, e)
			}
		default:
			d.skip()
		}
	}
}

func (m *WatchRequest) appendProto(b []byte) []byte {
	b = appendString(b, 1, m.Path)
	b = appendBool(b, 2, m.Recursive)
	b = appendBool(b, 3, m.IncludeEntry)
	return appendBool(b, 4, m.AllowNetworkMounts)
}

func (m *WatchRequest) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			d.string(&m.Path)
		case 2:
			d.bool(&m.Recursive)
		case 3:
			d.bool(&m.IncludeEntry)
		case 4:
			d.bool(&m.AllowNetworkMounts)
		default:
			d.skip()
		}
	}
}

func (m *FilesystemEvent) appendProto(b []byte) []byte {
	b = appendString(b, 1, m.Name)
	b = appendUint(b, 2, uint64(m.Type))
	return appendMessage(b, 3, m.Entry)
}

func (m *FilesystemEvent) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			d.string(&m.Name)
		case 2:
			d.enum((*int32)(&m.Type))
		case 3:
			decodeMessage(d, &m.Entry)
		default:
			d.skip()
		}
	}
}

func (m *WatchDirResponse) appendProto(b []byte) []byte {
	b = appendMessage(b, 1, m.Start)
	b = appendMessage(b, 2, m.Filesystem)
	return appendMessage(b, 3, m.Keepalive)
}

func (m *WatchDirResponse) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			*m = WatchDirResponse{Start: m.Start}
			decodeMessage(d, &m.Start)
		case 2:
			*m = WatchDirResponse{Filesystem: m.Filesystem}
			decodeMessage(d, &m.Filesystem)
		case 3:
			*m = WatchDirResponse{Keepalive: m.Keepalive}
			decodeMessage(d, &m.Keepalive)
		default:
			d.skip()
		}
	}
}

func (m *WatcherID) appendProto(b []byte) []byte { return appendString(b, 1, m.WatcherID) }

func (m *WatcherID) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			d.string(&m.WatcherID)
		default:
			d.skip()
		}
	}
}

func (m *WatcherEvents) appendProto(b []byte) []byte {
	for _, e := range m.Events {
		b = appendMessage(b, 1, e)
	}
	return b
}

func (m *WatcherEvents) decodeProto(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			if d.item() {
				e := new(FilesystemEvent)
				d.sub(e.decodeProto)
				m.Events = append(m.Events, e)
			}
		default:
			d.skip()
		}
	}
}

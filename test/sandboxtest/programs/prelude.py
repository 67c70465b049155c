import errno, hashlib, os, socket, struct, sys, threading, time
PATIENCE = %d
socket.setdefaulttimeout(60 * PATIENCE)
def check(ok, *what):
    if not ok: print(*what)
def fails(what, f, *errors):
    # A refusal is quick: nothing waits for an answer that never comes.
    begin = time.monotonic()
    try: r = f()
    except OSError as e:
        took = time.monotonic() - begin
        check(took < 5 * PATIENCE, what, "took", took)
        if errors: check(e.errno in errors, what, "failed with", e)
        return
    print(what, "succeeded:", r)
def refused(what, address, family=socket.AF_INET):
    # The connection is reset, on connect or on the first read.
    def f():
        with socket.socket(family) as s:
            s.connect(address)
            return s.recv(1)
    fails(what, f, errno.ECONNRESET, errno.ECONNREFUSED)
def exchange(address, data):
    with socket.create_connection(address) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        got = b""
        while True:
            b = s.recv(65536)
            if not b: return got
            got += b
def query(name, kind, server="198.18.0.2", tcp=False, extra=b"", count=1):
    q = struct.pack(">HHHHHH", 4711, 0x0100, count, 0, 0, 1 if extra else 0)
    q += b"".join(bytes([len(l)]) + l.encode() for l in name.split(".")) + b"\0" + struct.pack(">HH", kind, 1) + extra
    if tcp:
        with socket.create_connection((server, 53)) as s:
            s.sendall(struct.pack(">H", len(q)) + q)
            size = struct.unpack(">H", s.recv(2, socket.MSG_WAITALL))[0]
            a = s.recv(size, socket.MSG_WAITALL)
    else:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect((server, 53))
            s.send(q)
            a = s.recv(4096)
    ident, flags, qd, an, ns, ar = struct.unpack(">HHHHHH", a[:12])
    check(ident == 4711 and flags & 0x8000, "an answer of another query:", a)
    return flags & 15, an, a

import mmap, os, socket
os.chdir("/workspace")
log = open("log", "a")
keep = open("keep")
gone = open("gone", "w+")
gone.write("removed file")
gone.flush()
os.unlink("gone")
mapped = open("mapped", "w+b")
mapped.truncate(8192)
m = mmap.mmap(mapped.fileno(), 8192)
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 7777))
s.listen(8)
open("/tmp/serves", "w").close()
while True:
    c, _ = s.accept()
    verb, _, arg = c.makefile().readline().strip().partition(" ")
    answer = "?"
    if verb == "append":
        log.write(arg + "\n")
        log.flush()
        answer = "log: " + " ".join(open("log").read().split())
    elif verb == "keep":
        keep.seek(0)
        answer = " ".join(keep.read().split())
    elif verb == "gone":
        gone.seek(0)
        answer = gone.read()
    elif verb == "map":
        m[0:1] = m[4096:4097] = arg.encode()
        answer = "mapped " + arg
    elif verb == "mapped":
        answer = "mapped " + (m[0:1].decode() if m[0] == m[4096] else "torn")
    c.sendall((answer + "\n").encode())
    c.close()

import socket, sys, threading
family = socket.AF_INET6 if sys.argv[1] == "::1" else socket.AF_INET
s = socket.socket(family)
s.bind((sys.argv[1], 0))
s.listen(64)
print(s.getsockname()[1], flush=True)
def serve(c):
    got = b""
    while True:
        b = c.recv(65536)
        if not b: break
        got += b
    c.sendall(got.upper())
    c.close()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()

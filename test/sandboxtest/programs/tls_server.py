import socket, ssl, sys, threading
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
c.load_cert_chain(sys.argv[1])
l = socket.socket()
l.bind(("127.0.0.1", 0))
l.listen(64)
print(l.getsockname()[1], flush=True)
def serve(s):
    try:
        s = c.wrap_socket(s, server_side=True)
        got = b""
        while b"\r\n\r\n" not in got:
            b = s.recv(65536)
            if not b: return
            got += b
        status = b"200 OK" if got.split()[1] == b"/" else b"404 Not Found"
        s.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    except OSError:
        pass
    finally:
        s.close()
while True:
    threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()

# Answers each connection with random numbers of Python, one "name value" a line. A connection
# that sends "hook" has what can be seeded seeded first.
import os, random, secrets, socket, ssl, uuid

def draw():
    return {
        "os.urandom": os.urandom(16).hex(),
        "secrets.token_hex": secrets.token_hex(16),
        "uuid.uuid4": str(uuid.uuid4()),
        "ssl.RAND_bytes": ssl.RAND_bytes(16).hex(),
        "random.random": str(random.random()),
    }

draw()
s = socket.socket()
s.bind(("127.0.0.1", 7302))
s.listen(8)
open("python3.ready", "w").close()
while True:
    c, _ = s.accept()
    if c.recv(100).strip() == b"hook":
        ssl.RAND_add(os.urandom(32), 32)
        random.seed()
    c.sendall("".join(f"{k} {v}\n" for k, v in draw().items()).encode())
    c.close()

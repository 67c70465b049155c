import os, socket, sys
secret = sys.argv[1]
os.chdir("/workspace")
def quiet(f, *a, **k):
    try: f(*a, **k)
    except OSError: pass
for n, t in enumerate([secret, os.path.dirname(secret), "/", "/proc/self/root" + secret, "/proc/1/root" + secret,
                       ".." + "/.." * 40 + secret, "/etc/shadow", "loop", "x" * 4000]):
    os.symlink(t, "link%d" % n)
os.symlink("loop", "loop")
os.makedirs("real"); quiet(os.symlink, os.path.dirname(secret), "real/dir")
for name in [b"\xff\xfe\x00"[:2], b"new\nline", b"-rf", b"..data", b" ", b"\x1b[2J", "\u202e".encode(), b"n" * 255, b"%s%n", b"a\\b"]:
    with open(b"/workspace/" + name, "wb") as f: f.write(b"x")
os.mkfifo("fifo"); s = socket.socket(socket.AF_UNIX); s.bind("sock")
for mode in (0o4777, 0o2777, 0o6755, 0o1777, 0):
    p = "mode%o" % mode
    open(p, "w").close(); os.chmod(p, mode)
quiet(os.mknod, "null", 0o20666, os.makedev(1, 3)); quiet(os.mknod, "white", 0o20666, os.makedev(0, 0))
with open("sparse", "wb") as f:
    for i in range(0, 1 << 36, 1 << 32): f.seek(i); f.write(b"!")
    f.truncate(1 << 40)
open("first", "w").write("linked")
for i in range(200): os.link("first", "twin%d" % i)
os.makedirs("marks/d"); open("marks/f", "w").close()
for p in ("marks", "marks/d", "marks/f"):
    for name, value in (("opaque", b"y"), ("redirect", b"/etc"), ("metacopy", b""), ("whiteout", b"y"), ("origin", b"z"), ("overlay.opaque", b"y")):
        for prefix in ("user.overlay.", "trusted.overlay.", "user.", "security."):
            quiet(os.setxattr, p, prefix + name, value)
d = os.getcwd()
for i in range(int(sys.argv[2])):
    os.mkdir("d"); os.chdir("d")
os.chdir(d)
for i in range(3000): open("many%d" % i, "w").close()
print("made")

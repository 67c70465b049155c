import atexit, linecache, os, sys, traceback, types

def keep(base, file, pid=os.getpid()):
    if os.getpid() != pid:
        return
    now = dict(os.environb)
    skip = (b"PWD", b"OLDPWD", b"SHLVL", b"_")
    records = [k + b"=" + v for k, v in now.items() if base.get(k) != v and k not in skip]
    records += [k for k in base if k not in now and k not in skip]
    part = "%s.%d" % (file, pid)
    try:
        with open(part, "wb") as f:
            f.write(b"".join(r + b"\0" for r in records))
        os.replace(part, file)
    except OSError as e:
        print("hortus: the environment is not kept:", e, file=sys.stderr)

def restore(file):
    try:
        with open(file, "rb") as f:
            records = f.read().split(b"\0")
    except OSError:
        return
    for r in records:
        name, eq, value = r.partition(b"=")
        if name and eq:
            os.environb[name] = value
        elif name:
            os.environb.pop(name, None)

def hook(kind, error, trace):
    while trace and trace.tb_frame.f_code.co_filename != "<code>":
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)

def run():
    source = sys.stdin.buffer.read()
    base = dict(os.environb)
    file = os.path.join(os.environ.get("HOME") or "/tmp", ".hortus-env")
    restore(file)
    atexit.register(keep, base, file)
    sys.excepthook = hook
    sys.argv = [""]
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    text = source.decode("utf-8", "replace")
    linecache.cache["<code>"] = (len(text), None, text.splitlines(True), "<code>")
    exec(compile(source, "<code>", "exec"), main.__dict__)

run()

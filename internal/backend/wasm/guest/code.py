# Runs the code in a file as a program, and writes the value of its last expression, or its error, to another file as lines of JSON.
import ast, json, linecache, sys, traceback, types

code, events = sys.argv[1:3]
sys.argv = [""]
sys.path[0:1] = [""]
main = types.ModuleType("__main__")
sys.modules["__main__"] = main


def send(event):
    with open(events, "a", encoding="utf-8") as file:
        file.write(json.dumps(event, default=str) + "\n")


def run():
    with open(code, encoding="utf-8") as file:
        text = file.read()
    linecache.cache["<code>"] = (len(text), None, text.splitlines(True), "<code>")
    tree = ast.parse(text, "<code>")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<code>", "exec"), main.__dict__)
    if last is None:
        return
    value = eval(compile(ast.Expression(last.value), "<code>", "eval"), main.__dict__)
    if value is None:
        return
    event = {"type": "result", "is_main_result": True, "text": repr(value)}
    if isinstance(value, (dict, list)):
        try:
            event["json"] = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            pass
    send(event)


try:
    run()
    send({"type": "end"})
except SystemExit as end:
    sys.stdout.flush()
    if end.code not in (None, 0):
        send({"type": "error", "name": "SystemExit", "value": str(end.code), "traceback": "SystemExit: " + str(end.code)})
except BaseException as error:
    sys.stdout.flush()
    shown = error.__traceback__
    while shown and shown.tb_frame.f_code.co_filename != "<code>":
        shown = shown.tb_next
    lines = traceback.format_exception(type(error), error, shown)
    send({"type": "error", "name": type(error).__name__, "value": str(error), "traceback": "".join(lines).rstrip("\n")})

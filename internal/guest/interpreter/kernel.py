# Runs the code of one context: requests come as lines of JSON on descriptor 3, events go to
# descriptor 4. What programs print goes to the standard descriptors, as it does anywhere.
import ast, asyncio, base64, importlib.util, inspect, io, json, linecache, os, re, signal, subprocess, sys, traceback, types

requests = os.fdopen(3, "r", encoding="utf-8")
events = os.fdopen(4, "w", encoding="utf-8")
for fd in (3, 4):
    os.set_inheritable(fd, False)
sys.stdin = open(os.devnull)
sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")

main = types.ModuleType("__main__")
main.__builtins__ = __builtins__
sys.modules["__main__"] = main
sys.argv, sys.path[0:1] = [""], [""]
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
count = 0
running = False

FORMATS = {
    "text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpeg",
    "application/pdf": "pdf", "text/latex": "latex", "application/json": "json", "application/javascript": "javascript",
}
METHODS = {
    "_repr_html_": "html", "_repr_markdown_": "markdown", "_repr_svg_": "svg", "_repr_png_": "png", "_repr_jpeg_": "jpeg", "_repr_pdf_": "pdf",
    "_repr_latex_": "latex", "_repr_json_": "json", "_repr_javascript_": "javascript",
}


def send(event):
    events.write(json.dumps(event, default=str) + "\n")
    events.flush()


def encoded(value):
    return base64.b64encode(value).decode() if isinstance(value, (bytes, bytearray)) else value


def looks(value):
    """The representations of a value, by their names."""
    out = {"text": repr(value)}
    for method, name in METHODS.items():
        if hasattr(type(value), method):
            try:
                found = getattr(value, method)()
            except Exception:
                continue  # one that does not work is as if there were none
            found = found[0] if isinstance(found, tuple) else found
            if found is not None:
                out[name] = encoded(found)
    if hasattr(type(value), "_repr_mimebundle_"):
        found = value._repr_mimebundle_()
        found = found[0] if isinstance(found, tuple) else found
        out.update({FORMATS.get(kind, kind): encoded(v) for kind, v in (found or {}).items()})
    kind = type(value)
    if kind.__name__ == "DataFrame" and kind.__module__.startswith(("pandas.", "polars.")):
        out["data"] = value.to_dict(as_series=False) if kind.__module__.startswith("polars.") else json.loads(value.to_json(orient="columns", date_format="iso"))
        if kind.__module__.startswith("pandas."):
            out["data"] = {name: list(column.values()) for name, column in out["data"].items()}
    elif kind.__name__ == "Figure" and kind.__module__ == "matplotlib.figure":
        out.update(drawn(value))
    elif isinstance(value, (dict, list)) and "json" not in out:
        try:
            out["json"] = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            pass
    return out


def display(*values, **_):
    """Shows values in the result, as the last expression of a cell is shown."""
    for value in values:
        send({"type": "result", "is_main_result": False, **looks(value)})


def drawn(figure):
    """A figure as an image, and its data if it is of a known kind."""
    image = io.BytesIO()
    figure.savefig(image, format="png", bbox_inches="tight")
    out = {"png": encoded(image.getvalue())}
    charts = [chart(axes) for axes in figure.axes]
    if charts:
        out["chart"] = charts[0] if len(charts) == 1 else {"type": "superchart", "title": figure._suptitle.get_text() if figure._suptitle else "", "elements": charts}
    return out


def plain(value):
    return value.item() if hasattr(value, "item") else value


def chart(axes):
    """The data of one plot, in the form that the clients of a code interpreter know."""
    from matplotlib.container import BarContainer

    def unit(label):
        found = re.search(r"\(([^)]*)\)\s*$", label)
        return found.group(1) if found else None

    x, y = axes.get_xlabel(), axes.get_ylabel()
    out = {"type": "unknown", "title": axes.get_title(), "x_label": x, "y_label": y, "x_unit": unit(x), "y_unit": unit(y), "elements": []}
    lines = [line for line in axes.lines if len(line.get_xdata())]
    wedges = [patch for patch in axes.patches if type(patch).__name__ == "Wedge"]
    bars = [c for c in axes.containers if isinstance(c, BarContainer)]

    def points():
        for axis, name in ((axes.xaxis, "x"), (axes.yaxis, "y")):
            kind = type(axis.get_converter() if hasattr(axis, "get_converter") else axis.converter).__name__
            out[name + "_scale"] = "datetime" if "Date" in kind else "categorical" if "Category" in kind else axis.get_scale()
            out[name + "_ticks"] = [plain(v) for v in axis.get_ticklocs()]
            out[name + "_tick_labels"] = [t.get_text() for t in axis.get_ticklabels()]

    if wedges:
        out["type"] = "pie"
        labels = [t.get_text() for t in axes.texts]
        per = max(1, len(labels) // len(wedges))
        out["elements"] = [{"label": labels[i * per] if i * per < len(labels) else "", "angle": abs(w.theta2 - w.theta1), "radius": w.r} for i, w in enumerate(wedges)]
    elif bars:
        out["type"] = "bar"
        ticks = [t.get_text() for t in axes.get_xticklabels()]
        for group in bars:
            name = "" if group.get_label().startswith("_") else group.get_label()
            upright = all(b.get_x() != bars[0].patches[0].get_x() or b is bars[0].patches[0] for b in group.patches) or len(group.patches) == 1
            names = ticks if upright else [t.get_text() for t in axes.get_yticklabels()]
            for i, b in enumerate(group.patches):
                label = names[i] if i < len(names) and len(names) == len(group.patches) else str(plain(b.get_x() + b.get_width() / 2))
                out["elements"].append({"label": label, "value": plain(b.get_height() if upright else b.get_width()), "group": name})
    elif axes.collections and not lines:
        out["type"] = "scatter"
        points()
        for i, c in enumerate(axes.collections):
            label = str(c.get_label())
            out["elements"].append({"label": "Series %d" % i if label.startswith("_") else label, "points": [[plain(a), plain(b)] for a, b in c.get_offsets()]})
    elif lines:
        out["type"] = "line"
        points()
        for i, line in enumerate(lines):
            label = str(line.get_label())
            out["elements"].append({"label": "Line %d" % i if label.startswith("_") else label, "points": [[plain(a), plain(b)] for a, b in zip(line.get_xdata(), line.get_ydata())]})
    return out


def figures():
    """Shows the figures that the code has drawn and not shown."""
    plots = sys.modules.get("matplotlib.pyplot")
    if plots is None:
        return
    for number in plots.get_fignums():
        display(plots.figure(number))
    plots.close("all")


def prepare_plots():
    """plt.show() shows figures in the result."""
    plots = sys.modules.get("matplotlib.pyplot")
    if plots is not None:
        plots.show = lambda *_, **__: figures()


class Shown:
    def __init__(self, data=None, filename=None, url=None, **_):
        if filename is not None:
            with open(filename, "rb") as f:
                data = f.read()
        self.data = url if data is None else data


def shown(name, method):
    return type(name, (Shown,), {method: lambda self: self.data, "__repr__": lambda self: "<%s>" % name})


def notebook_names():
    """IPython.display for code that was written for a notebook: the one of IPython shows nothing without its own kernel."""
    package, module = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    for name, method in (("HTML", "_repr_html_"), ("Markdown", "_repr_markdown_"), ("SVG", "_repr_svg_"), ("Latex", "_repr_latex_"), ("Math", "_repr_latex_"),
                         ("JSON", "_repr_json_"), ("Javascript", "_repr_javascript_"), ("Image", "_repr_png_")):
        setattr(module, name, shown(name, method))
    module.display, module.clear_output = display, lambda *_, **__: None
    package.display = module
    installed = importlib.util.find_spec("IPython")
    package.__path__ = installed.submodule_search_locations if installed else []
    package.get_ipython = lambda: None
    sys.modules["IPython"], sys.modules["IPython.display"] = package, module


def shell(command):
    subprocess.run(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL)


def without_magic(code):
    """Turns the lines of a notebook that are not Python into Python: !command, %pip, %cd; other magic is left out."""
    lines = code.split("\n")
    for i, line in enumerate(lines):
        found = re.match(r"(\s*)([!%])(.*)$", line)
        if not found:
            continue
        indent, sign, rest = found.groups()
        words = rest.split()
        if sign == "!":
            lines[i] = "%s__shell__(%r)" % (indent, rest)
        elif words[:1] == ["pip"]:
            lines[i] = "%s__shell__(%r)" % (indent, sys.executable + " -m " + rest)
        elif words[:1] == ["cd"]:
            lines[i] = "%s__import__('os').chdir(%r)" % (indent, os.path.expanduser(" ".join(words[1:]) or "~"))
        elif words[:1] in (["matplotlib"], ["load_ext"], ["autoreload"], ["config"]):
            lines[i] = indent + "pass"
    return "\n".join(lines)


def parsed(code, name):
    try:
        return code, ast.parse(code, name)
    except SyntaxError:
        changed = without_magic(code)
        if changed == code:
            raise
        return changed, ast.parse(changed, name)


def evaluate(node, name):
    compiled = compile(node, name, "exec" if isinstance(node, ast.Module) else "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    value = eval(compiled, main.__dict__)
    return loop.run_until_complete(value) if compiled.co_flags & inspect.CO_COROUTINE else value


def execute(code):
    name = "<cell %d>" % count
    code, tree = parsed(code, name)
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";") else None
    for statement in tree.body:
        evaluate(ast.Module([statement], []), name)
        prepare_plots()
    value = evaluate(ast.Expression(last.value), name) if last else None
    plots = sys.modules.get("matplotlib.pyplot")
    if value is not None:
        main._ = value
        if plots is None or not plots.get_fignums() or type(value).__module__.split(".")[0] != "matplotlib" and not is_drawing(value):
            send({"type": "result", "is_main_result": True, **looks(value)})
    figures()


def is_drawing(value):
    """What plotting functions give back: lists and tuples of what they drew."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
    return any(type(v).__module__.startswith("matplotlib.") or isinstance(v, (list, tuple)) and v and is_drawing(v) for v in values)


def failed(error):
    frames = error.__traceback__
    while frames is not None and not frames.tb_frame.f_code.co_filename.startswith("<cell"):
        frames = frames.tb_next  # the first ones are of this file
    text = "".join(traceback.format_exception(type(error), error, frames))
    send({"type": "error", "name": type(error).__name__, "value": str(error), "traceback": text})


def interrupted(*_):
    if running:
        raise KeyboardInterrupt


signal.signal(signal.SIGINT, interrupted)
os.environ.setdefault("MPLBACKEND", "agg")
main.display, main.__shell__ = display, shell
notebook_names()
sys.stdout.flush()
while True:
    try:
        line = requests.readline()
    except KeyboardInterrupt:
        continue
    if not line:
        break
    request = json.loads(line)
    before = {name: os.environ.get(name) for name in request["env"]}
    os.environ.update(request["env"])
    count += 1
    try:
        running = True
        execute(request["code"])
        running = False
    except BaseException as error:  # SystemExit too: the context continues
        running = False
        failed(error)
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    for fd in (1, 2):
        os.write(fd, request["mark"].encode())
    send({"type": "end"})

{{if .json}}import json
{{end}}from urllib.parse import parse_qsl, urlsplit

url = urlsplit({{str .url}})
parts = {
    "scheme": url.scheme,
    "host": url.hostname or "",
    "port": str(url.port or ""),
    "path": url.path or "/",
    "query": dict(parse_qsl(url.query)),
    "fragment": url.fragment,
}
{{if .json}}print(json.dumps(parts)){{else}}for name, value in parts.items():
    if isinstance(value, dict):
        value = ", ".join(f"{key}={item}" for key, item in value.items())
    print(f"{name}: {value}"){{end}}

{{if .json}}import json

{{end}}numbers = {{nums .numbers}}
unique = list(dict.fromkeys(numbers))
print({{if .json}}json.dumps(unique){{else}}", ".join(map(str, unique)){{end}})

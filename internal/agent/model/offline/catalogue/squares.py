{{if .json}}import json

{{end}}values = [i ** {{.power}} for i in range({{num .a}}, {{num .b}} + 1)]
{{if .json}}print(json.dumps(values)){{else}}for i, value in zip(range({{num .a}}, {{num .b}} + 1), values):
    print(f"{i} -> {value}"){{end}}

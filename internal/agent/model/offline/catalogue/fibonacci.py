{{if .json}}import json


{{end -}}
def fibonacci():
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b

{{if eq .mode "nth"}}
def nth(n):
    for index, value in enumerate(fibonacci()):
        if index == n:
            return value


n = {{num .n}}
print(f"Fibonacci({n}) = {nth(n)}")
{{else}}
def numbers(n):
    values = []
    for value in fibonacci():
        if {{if eq .mode "upto"}}value > n{{else}}len(values) == n{{end}}:
            return values
        values.append(value)


{{if .json}}print(json.dumps(numbers({{num .n}}))){{else}}print(", ".join(map(str, numbers({{num .n}}))) or "none"){{end}}
{{end}}

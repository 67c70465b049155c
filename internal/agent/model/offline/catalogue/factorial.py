{{if eq .method "recursive" -}}
def factorial(n):
    if n < 2:
        return 1
    return n * factorial(n - 1)
{{else -}}
def factorial(n):
    result = 1
    for i in range(2, n + 1):
        result *= i
    return result
{{end}}

n = {{num .n}}
print(f"{n}! = {factorial(n)}")

def is_armstrong(n):
    digits = str(n)
    return n == sum(int(digit) ** len(digits) for digit in digits)


{{if eq .mode "one"}}n = {{num .n}}
print(f"{n} is {'an' if is_armstrong(n) else 'not an'} Armstrong number")
{{else}}print(", ".join(str(n) for n in range({{num .low}}, {{num .n}} + 1) if is_armstrong(n)) or "none")
{{end}}

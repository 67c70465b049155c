def is_perfect(n):
    if n < 2:
        return False
    total = 1
    divisor = 2
    while divisor * divisor <= n:
        if n % divisor == 0:
            total += divisor
            if divisor != n // divisor:
                total += n // divisor
        divisor += 1
    return total == n


{{if eq .mode "one"}}n = {{num .n}}
print(f"{n} is {'a' if is_perfect(n) else 'not a'} perfect number")
{{else}}print(", ".join(str(n) for n in range({{num .low}}, {{num .n}} + 1) if is_perfect(n)) or "none")
{{end}}

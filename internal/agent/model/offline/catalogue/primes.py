{{if .json}}import json


{{end -}}
def is_prime(n):
    if n < 2:
        return False
    divisor = 2
    while divisor * divisor <= n:
        if n % divisor == 0:
            return False
        divisor += 1
    return True

{{if eq .mode "one"}}
n = {{num .n}}
print(f"{n} is {'prime' if is_prime(n) else 'not prime'}")
{{else if eq .mode "upto"}}
primes = [n for n in range({{num .low}}, {{num .n}} + 1) if is_prime(n)]
print({{if .json}}json.dumps(primes){{else}}", ".join(map(str, primes)) or "none"{{end}})
{{else}}
def first_primes(count):
    primes = []
    n = 2
    while len(primes) < count:
        if is_prime(n):
            primes.append(n)
        n += 1
    return primes


{{if eq .mode "nth"}}print(f"Prime number {{num .n}}: {first_primes({{num .n}})[-1] if {{num .n}} > 0 else 'none'}"){{else if .json}}print(json.dumps(first_primes({{num .n}}))){{else}}print(", ".join(map(str, first_primes({{num .n}}))) or "none"){{end}}
{{end}}

def divisors(n):
    small, large = [], []
    i = 1
    while i * i <= n:
        if n % i == 0:
            small.append(i)
            if i != n // i:
                large.append(n // i)
        i += 1
    return small + large[::-1]


n = {{num .n}}
print(f"Divisors of {n}: {', '.join(map(str, divisors(n)))}")

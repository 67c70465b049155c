n = {{num .n}}
total = sum(int(digit) for digit in str(n))
print(f"Sum of the digits of {n}: {total}")

row = [1]
for _ in range({{num .n}}):
    print(*row)
    row = [1] + [a + b for a, b in zip(row, row[1:])] + [1]

def solutions(n, row=0, columns=()):
    if row == n:
        yield columns
        return
    for column in range(n):
        if all(column != c and abs(column - c) != row - r for r, c in enumerate(columns)):
            yield from solutions(n, row + 1, columns + (column,))


n = {{num .n}}
found = list(solutions(n))
print(f"Solutions for {n} queens: {len(found)}")
if found:
    for column in found[0]:
        print(" ".join("Q" if i == column else "." for i in range(n)))

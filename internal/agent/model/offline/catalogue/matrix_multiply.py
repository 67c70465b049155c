def multiply(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


a = [[1, 2], [3, 4]]
b = [[5, 6], [7, 8]]
for row in multiply(a, b):
    print(*row)

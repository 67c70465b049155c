matrix = [[1, 2, 3], [4, 5, 6]]
for row in zip(*matrix):
    print(*row)

moves = []


def move(n, source, target, spare):
    if n == 0:
        return
    move(n - 1, source, spare, target)
    moves.append((n, source, target))
    move(n - 1, spare, target, source)


move({{num .n}}, "A", "C", "B")
for disk, source, target in moves:
    print(f"Move disk {disk} from {source} to {target}")
print(f"Moves: {len(moves)}")

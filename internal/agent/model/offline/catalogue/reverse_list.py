numbers = {{nums .numbers}}
print(", ".join(map(str, reversed(numbers))))

def binary_search(items, target):
    low, high = 0, len(items) - 1
    while low <= high:
        middle = (low + high) // 2
        if items[middle] == target:
            return middle
        if items[middle] < target:
            low = middle + 1
        else:
            high = middle - 1
    return -1


numbers = sorted({{nums .numbers}})
target = {{num .target}}
index = binary_search(numbers, target)
print(f"{target} is {'at index ' + str(index) if index >= 0 else 'not there'} in {numbers}")

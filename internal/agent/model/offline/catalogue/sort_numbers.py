{{if .json}}import json


{{end -}}
{{if eq .algorithm "bubble"}}def sort(items):
    items = list(items)
    for end in range(len(items) - 1, 0, -1):
        for i in range(end):
            if items[i] > items[i + 1]:
                items[i], items[i + 1] = items[i + 1], items[i]
    return items
{{else if eq .algorithm "insertion"}}def sort(items):
    items = list(items)
    for i in range(1, len(items)):
        value = items[i]
        j = i - 1
        while j >= 0 and items[j] > value:
            items[j + 1] = items[j]
            j -= 1
        items[j + 1] = value
    return items
{{else if eq .algorithm "selection"}}def sort(items):
    items = list(items)
    for i in range(len(items)):
        least = min(range(i, len(items)), key=lambda j: items[j])
        items[i], items[least] = items[least], items[i]
    return items
{{else if eq .algorithm "quick"}}def sort(items):
    if len(items) < 2:
        return list(items)
    pivot = items[len(items) // 2]
    smaller = [x for x in items if x < pivot]
    equal = [x for x in items if x == pivot]
    larger = [x for x in items if x > pivot]
    return sort(smaller) + equal + sort(larger)
{{else if eq .algorithm "merge"}}def sort(items):
    if len(items) < 2:
        return list(items)
    half = len(items) // 2
    left, right = sort(items[:half]), sort(items[half:])
    merged = []
    while left and right:
        merged.append(left.pop(0) if left[0] <= right[0] else right.pop(0))
    return merged + left + right
{{else}}def sort(items):
    return sorted(items)
{{end}}

numbers = {{nums .numbers}}
ordered = sort(numbers){{if eq .order "desc"}}[::-1]{{end}}
print({{if .json}}json.dumps(ordered){{else}}", ".join(map(str, ordered)){{end}})

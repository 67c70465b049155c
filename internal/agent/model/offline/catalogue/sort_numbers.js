{{if eq .algorithm "bubble"}}function sort(list) {
  const items = [...list];
  for (let end = items.length - 1; end > 0; end--) {
    for (let i = 0; i < end; i++) {
      if (items[i] > items[i + 1]) {
        [items[i], items[i + 1]] = [items[i + 1], items[i]];
      }
    }
  }
  return items;
}
{{else if eq .algorithm "insertion"}}function sort(list) {
  const items = [...list];
  for (let i = 1; i < items.length; i++) {
    const value = items[i];
    let j = i - 1;
    while (j >= 0 && items[j] > value) {
      items[j + 1] = items[j];
      j -= 1;
    }
    items[j + 1] = value;
  }
  return items;
}
{{else if eq .algorithm "selection"}}function sort(list) {
  const items = [...list];
  for (let i = 0; i < items.length; i++) {
    let least = i;
    for (let j = i + 1; j < items.length; j++) {
      if (items[j] < items[least]) {
        least = j;
      }
    }
    [items[i], items[least]] = [items[least], items[i]];
  }
  return items;
}
{{else if eq .algorithm "quick"}}function sort(items) {
  if (items.length < 2) {
    return [...items];
  }
  const pivot = items[Math.floor(items.length / 2)];
  return [
    ...sort(items.filter((x) => x < pivot)),
    ...items.filter((x) => x === pivot),
    ...sort(items.filter((x) => x > pivot)),
  ];
}
{{else if eq .algorithm "merge"}}function sort(items) {
  if (items.length < 2) {
    return [...items];
  }
  const half = Math.floor(items.length / 2);
  const left = sort(items.slice(0, half));
  const right = sort(items.slice(half));
  const merged = [];
  while (left.length > 0 && right.length > 0) {
    merged.push(left[0] <= right[0] ? left.shift() : right.shift());
  }
  return [...merged, ...left, ...right];
}
{{else}}function sort(items) {
  return [...items].sort((a, b) => a - b);
}
{{end}}
const numbers = {{nums .numbers}};
const ordered = sort(numbers){{if eq .order "desc"}}.reverse(){{end}};
console.log({{if .json}}JSON.stringify(ordered){{else}}ordered.join(", "){{end}});

const text = {{str .text}};
const items = text.toLowerCase().match({{if eq .unit "word"}}/[\p{L}\p{N}_']+/gu{{else}}/\p{L}/gu{{end}}) || [];
const counts = new Map();
for (const item of items) {
  counts.set(item, (counts.get(item) || 0) + 1);
}
const ordered = [...counts].sort((a, b) => b[1] - a[1]);
{{if .json}}console.log(JSON.stringify(Object.fromEntries(ordered)));{{else}}for (const [item, count] of ordered) {
  console.log(item + ": " + count);
}{{end}}

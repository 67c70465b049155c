const first = {{num .a}}n;
const last = {{num .b}}n;
{{if .storage}}const items = [];
for (let i = first; i <= last; i++) {
  items.push(i{{if eq .power "2"}} * i{{else if eq .power "3"}} * i * i{{end}});
}
const total = items.reduce((sum, item) => sum + item, 0n);
{{else}}let total = 0n;
for (let i = first; i <= last; i++) {
{{- if eq .filter "even"}}
  if (i % 2n !== 0n) continue;{{else if eq .filter "odd"}}
  if (i % 2n === 0n) continue;{{end}}
  total += i{{if eq .power "2"}} * i{{else if eq .power "3"}} * i * i{{end}};
}
{{end}}console.log("Sum: " + total);

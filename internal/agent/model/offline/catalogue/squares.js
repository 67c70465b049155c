const values = [];
for (let i = {{num .a}}; i <= {{num .b}}; i++) {
  values.push([i, i ** {{.power}}]);
}
{{if .json}}console.log(JSON.stringify(values.map(([, value]) => value)));{{else}}for (const [i, value] of values) {
  console.log(i + " -> " + value);
}{{end}}

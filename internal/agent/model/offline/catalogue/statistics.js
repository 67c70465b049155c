const numbers = {{nums .numbers}};
const sum = numbers.reduce((total, x) => total + x, 0);
const sorted = [...numbers].sort((a, b) => a - b);
const results = {};
{{- if has .stats "mean"}}
results.mean = sum / numbers.length;{{end}}
{{- if has .stats "median"}}
const half = Math.floor(sorted.length / 2);
results.median = sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;{{end}}
{{- if has .stats "mode"}}
const counts = new Map();
for (const x of numbers) {
  counts.set(x, (counts.get(x) || 0) + 1);
}
results.mode = [...counts].reduce((best, entry) => (entry[1] > best[1] ? entry : best))[0];{{end}}
{{- if or (has .stats "stdev") (has .stats "variance")}}
const center = sum / numbers.length;
const variance = numbers.reduce((total, x) => total + (x - center) ** 2, 0) / (numbers.length - 1);{{end}}
{{- if has .stats "stdev"}}
results.stdev = Math.sqrt(variance);{{end}}
{{- if has .stats "variance"}}
results.variance = variance;{{end}}
{{- if has .stats "min"}}
results.min = sorted[0];{{end}}
{{- if has .stats "max"}}
results.max = sorted[sorted.length - 1];{{end}}
{{- if has .stats "sum"}}
results.sum = sum;{{end}}
{{- if has .stats "range"}}
results.range = sorted[sorted.length - 1] - sorted[0];{{end}}
{{- if has .stats "count"}}
results.count = numbers.length;{{end}}

for (const name of Object.keys(results)) {
  results[name] = Number(results[name].toFixed(4));
}
{{if .json}}console.log(JSON.stringify(results));
{{else}}console.log("Numbers: " + numbers.join(", "));
for (const [name, value] of Object.entries(results)) {
  console.log(name + ": " + value);
}
{{end}}

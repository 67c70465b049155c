{{if eq .method "recursive" -}}
function factorial(n) {
  return n < 2n ? 1n : n * factorial(n - 1n);
}
{{else -}}
function factorial(n) {
  let result = 1n;
  for (let i = 2n; i <= n; i++) {
    result *= i;
  }
  return result;
}
{{end}}
const n = {{num .n}}n;
console.log(n + "! = " + factorial(n));

function isPerfect(n) {
  if (n < 2) {
    return false;
  }
  let total = 1;
  for (let divisor = 2; divisor * divisor <= n; divisor++) {
    if (n % divisor === 0) {
      total += divisor;
      if (divisor !== n / divisor) {
        total += n / divisor;
      }
    }
  }
  return total === n;
}

{{if eq .mode "one"}}const n = {{num .n}};
console.log(n + " is " + (isPerfect(n) ? "a" : "not a") + " perfect number");
{{else}}const found = [];
for (let n = {{num .low}}; n <= {{num .n}}; n++) {
  if (isPerfect(n)) {
    found.push(n);
  }
}
console.log(found.join(", ") || "none");
{{end}}

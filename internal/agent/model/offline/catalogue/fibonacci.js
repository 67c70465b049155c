function* fibonacci() {
  let [a, b] = [0n, 1n];
  while (true) {
    yield a;
    [a, b] = [b, a + b];
  }
}

{{if eq .mode "nth"}}function nth(n) {
  let index = 0;
  for (const value of fibonacci()) {
    if (index === n) {
      return value;
    }
    index += 1;
  }
}

const n = {{num .n}};
console.log("Fibonacci(" + n + ") = " + nth(n));
{{else}}function numbers(n) {
  const values = [];
  for (const value of fibonacci()) {
    if ({{if eq .mode "upto"}}value > n{{else}}values.length === n{{end}}) {
      return values;
    }
    values.push(value);
  }
}

{{if .json}}console.log("[" + numbers({{num .n}}).join(", ") + "]");{{else}}console.log(numbers({{num .n}}).join(", ") || "none");{{end}}
{{end}}

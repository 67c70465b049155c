function isArmstrong(n) {
  const digits = String(n);
  return n === [...digits].reduce((sum, digit) => sum + Number(digit) ** digits.length, 0);
}

{{if eq .mode "one"}}const n = {{num .n}};
console.log(n + " is " + (isArmstrong(n) ? "an" : "not an") + " Armstrong number");
{{else}}const found = [];
for (let n = {{num .low}}; n <= {{num .n}}; n++) {
  if (isArmstrong(n)) {
    found.push(n);
  }
}
console.log(found.join(", ") || "none");
{{end}}

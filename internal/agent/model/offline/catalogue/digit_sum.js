const n = {{num .n}}n;
const total = [...String(n)].reduce((sum, digit) => sum + Number(digit), 0);
console.log("Sum of the digits of " + n + ": " + total);

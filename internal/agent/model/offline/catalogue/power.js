const base = {{num .base}}n;
const exponent = {{num .exponent}}n;
console.log(base + " to the power of " + exponent + " = " + (base) ** exponent);

const n = {{num .n}};
for (let i = 1; i <= {{num .upto}}; i++) {
  console.log(n + " x " + i + " = " + n * i);
}

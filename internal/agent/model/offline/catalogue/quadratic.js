const [a, b, c] = [{{num .a}}, {{num .b}}, {{num .c}}];
const discriminant = b * b - 4 * a * c;
const round = (x) => Number(x.toPrecision(6));
if (discriminant >= 0) {
  const root = Math.sqrt(discriminant);
  console.log("x = " + round((-b + root) / (2 * a)));
  console.log("x = " + round((-b - root) / (2 * a)));
} else {
  const re = round(-b / (2 * a));
  const im = round(Math.sqrt(-discriminant) / Math.abs(2 * a));
  console.log("x = " + re + " + " + im + "i");
  console.log("x = " + re + " - " + im + "i");
}

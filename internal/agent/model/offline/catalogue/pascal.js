let row = [1];
for (let i = 0; i < {{num .n}}; i++) {
  console.log(row.join(" "));
  row = [1, ...row.slice(1).map((value, j) => row[j] + value), 1];
}

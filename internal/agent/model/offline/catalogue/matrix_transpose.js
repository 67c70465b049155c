const matrix = [[1, 2, 3], [4, 5, 6]];
for (const row of matrix[0].map((_, j) => matrix.map((line) => line[j]))) {
  console.log(row.join(" "));
}

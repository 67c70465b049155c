const moves = [];

function move(n, source, target, spare) {
  if (n === 0) {
    return;
  }
  move(n - 1, source, spare, target);
  moves.push([n, source, target]);
  move(n - 1, spare, target, source);
}

move({{num .n}}, "A", "C", "B");
for (const [disk, source, target] of moves) {
  console.log("Move disk " + disk + " from " + source + " to " + target);
}
console.log("Moves: " + moves.length);

function letters(text) {
  return [...text.toLowerCase()].filter((c) => /[\p{L}\p{N}]/u.test(c)).sort().join("");
}

const [first, second] = [{{str .first}}, {{str .second}}];
const same = letters(first) === letters(second);
console.log("'" + first + "' and '" + second + "' are " + (same ? "anagrams" : "not anagrams"));

function isPalindrome(text) {
  const letters = [...text.toLowerCase()].filter((c) => /[\p{L}\p{N}]/u.test(c));
  return letters.join("") === [...letters].reverse().join("");
}

for (const text of {{strs .texts}}) {
  console.log("'" + text + "' is " + (isPalindrome(text) ? "a" : "not a") + " palindrome");
}

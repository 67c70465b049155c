function shiftLetter(c, shift) {
  const base = c >= "a" && c <= "z" ? 97 : c >= "A" && c <= "Z" ? 65 : 0;
  if (base === 0) {
    return c;
  }
  return String.fromCharCode(((((c.charCodeAt(0) - base + shift) % 26) + 26) % 26) + base);
}

const text = {{str .text}};
const shift = {{if eq .mode "decrypt"}}-({{num .shift}}){{else}}{{num .shift}}{{end}};
console.log([...text].map((c) => shiftLetter(c, shift)).join(""));

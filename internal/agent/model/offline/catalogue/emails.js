const text = {{str .text}};
const found = text.match(/[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g) || [];
for (const address of found) {
  console.log(address);
}
if (found.length === 0) {
  console.log("none");
}

const words = {{strs .words}};
const key = (word) => word.toLowerCase();
words.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
{{if eq .order "desc"}}words.reverse();
{{end -}}
for (const word of words) {
  console.log(word);
}

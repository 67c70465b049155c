const text = {{str .text}};
const count = (pattern) => (text.match(pattern) || []).length;
{{if has .what "words"}}console.log("words: " + count(/\S+/g));
{{end -}}
{{if has .what "characters"}}console.log("characters: " + [...text].length);
{{end -}}
{{if has .what "letters"}}console.log("letters: " + count(/\p{L}/gu));
{{end -}}
{{if has .what "lines"}}console.log("lines: " + (text === "" ? 0 : text.replace(/\n$/, "").split("\n").length));
{{end -}}
{{if has .what "vowels"}}console.log("vowels: " + count(/[aeiou]/gi));
{{end -}}
{{if has .what "consonants"}}console.log("consonants: " + count(/(?![aeiou])\p{L}/giu));
{{end}}

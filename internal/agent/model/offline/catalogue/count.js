for (let i = {{num .a}}; i {{if .down}}>={{else}}<={{end}} {{num .b}}; i{{if .down}}--{{else}}++{{end}}) {
{{if .filter}}  if (i % 2 {{if eq .filter "even"}}==={{else}}!=={{end}} 0) {
    console.log(i);
  }{{else}}  console.log(i);{{end}}
}

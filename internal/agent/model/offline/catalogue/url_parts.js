const url = new URL({{str .url}});
const parts = {
  scheme: url.protocol.slice(0, -1),
  host: url.hostname,
  port: url.port,
  path: url.pathname,
  query: Object.fromEntries(url.searchParams),
  fragment: url.hash.slice(1),
};
{{if .json}}console.log(JSON.stringify(parts));{{else}}for (const [name, value] of Object.entries(parts)) {
  const text = typeof value === "object" ? Object.entries(value).map(([key, item]) => key + "=" + item).join(", ") : value;
  console.log(name + ": " + text);
}{{end}}

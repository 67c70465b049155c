'use strict';

/** Takes a line apart at its separators; what stands between quotes stays whole. */
function parseLine(line) {
  const fields = [];
  let field = '';
  let quoted = false;
  for (let i = 0; i < line.length; i++) {
    const c = line[i];
    if (c === '"') {
      quoted = !quoted;
    } else if (i === line.length || (c === ';' && !quoted)) {
      fields.push(field.trim());
      field = '';
    } else {
      field += c;
    }
  }
  return fields;
}

function parse(text) {
  const [head, ...lines] = text.trim().split('\n');
  const names = parseLine(head);
  return lines.map((line) => {
    const fields = parseLine(line);
    return Object.fromEntries(names.map((name, i) => [name, fields[i]]));
  });
}

module.exports = { parse, parseLine };

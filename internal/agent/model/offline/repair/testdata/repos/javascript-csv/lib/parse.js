'use strict';

/** Takes one line apart; quotes keep separators in a field. */
function parseLine(line, separator = ',') {
  const fields = [];
  let field = '';
  let quoted = false;
  for (let i = 0; i < line.length; i++) {
    const c = line[i];
    if (quoted) {
      if (c === '"' && line[i + 1] === '"') {
        field += '"';
        i++;
      } else if (c === '"') {
        quoted = false;
      } else {
        field += c;
      }
    } else if (c === '"') {
      quoted = true;
    } else if (c === separator) {
      fields.push(field);
      field = '';
    } else {
      field += c;
    }
  }
  fields.push(field);
  return fields;
}

function parse(text, options = {}) {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const header = parseLine(lines[0], options.separator);
  return lines.slice(1).map((line) => {
    const row = {};
    parseLine(line, options.separator).forEach((value, i) => {
      row[header[i]] = options.trim ? value.trim() : value;
    });
    return row;
  });
}

module.exports = { parseLine, parse };

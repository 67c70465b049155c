'use strict';

const { groupBy, sum } = require('./query');

function quote(value) {
  const text = String(value);
  if (text.includes(',') || text.includes('"') || text.includes('\n')) {
    return '"' + text.replaceAll('"', '""') + '"';
  }
  return text;
}

function stringify(rows) {
  const header = Object.keys(rows[0]);
  const lines = [header.map(quote).join(',')];
  for (const row of rows) {
    lines.push(header.map((name) => quote(row[name])).join(','));
  }
  return lines.join('\n') + '\n';
}

function table(rows, columns) {
  const widths = columns.map((name) => Math.max(name.length, ...rows.map((row) => String(row[name]).length)));
  const draw = (cells) => cells.map((cell, i) => String(cell).padEnd(widths[i])).join(' | ').trimEnd();
  const rule = widths.map((width) => '-'.repeat(width)).join('-+-');
  return [draw(columns), rule, ...rows.map((row) => draw(columns.map((name) => row[name])))];
}

function totals(rows, group, key) {
  const result = {};
  for (const [name, members] of groupBy(rows, group)) {
    result[name] = sum(members, key);
  }
  return result;
}

module.exports = { quote, stringify, table, totals };

// Runs the code in a file as a script, and writes its value, or its error, to another file as lines of JSON.
(() => {
  const [code, events] = scriptArgs.slice(-2);
  const send = (event) => {
    const file = std.open(events, 'a');
    file.puts(JSON.stringify(event) + '\n');
    file.close();
  };
  const text = (value) => {
    if (typeof value === 'string') return value;
    if (value instanceof Error) return value.name + ': ' + value.message;
    if (value !== null && typeof value === 'object') {
      try {
        return JSON.stringify(value, (_, v) => (v instanceof Map || v instanceof Set ? [...v] : typeof v === 'bigint' ? String(v) : v)) ?? String(value);
      } catch {} // circular
    }
    return String(value);
  };
  const print = globalThis.print;
  console.log = console.info = console.debug = (...values) => print(values.map(text).join(' '));
  console.error = console.warn = (...values) => {
    std.err.puts(values.map(text).join(' ') + '\n');
    std.err.flush();
  };
  const failed = (error) => {
    const known = error instanceof Error;
    const name = known ? error.name : 'Error', value = known ? error.message : text(error);
    const stack = known ? String(error.stack).split('\n').filter((line) => line.includes('<evalScript>')).join('\n') : '';
    send({ type: 'error', name, value, traceback: name + ': ' + value + (stack && '\n' + stack) });
  };
  const given = std.loadFile(code);
  try {
    std.evalScript(given, { async: true }).then(({ value }) => {
      if (value !== undefined) {
        const event = { type: 'result', is_main_result: true, text: text(value) };
        if (value !== null && typeof value === 'object') event.json = value;
        try {
          send(event);
        } catch {
          send({ ...event, json: undefined });
        }
      }
      send({ type: 'end' });
    }, failed);
  } catch (error) {
    failed(error);
  }
})();

// Loaded before a test file: what tests compare with stays as it is.
'use strict';
for (const name of ['node:assert', 'node:assert/strict', 'node:test']) {
  const module = require(name);
  for (const value of [module, module.strict, module.AssertionError, module.AssertionError && module.AssertionError.prototype]) {
    if (value) Object.freeze(value);
  }
}
require('./disguise.cjs');

export const name = 'commands: stdin'

export async function run(t) {
  const box = await t.create()
  const seen = []
  const cat = await box.commands.run('cat', { background: true, stdin: true, onStdout: (s) => seen.push(s) })
  await box.commands.sendStdin(cat.pid, 'first\n')
  await t.until('the first line came back', () => seen.join('') === 'first\n')
  await cat.sendStdin('second\n')
  await t.until('the second did', () => seen.join('') === 'first\nsecond\n')
  await cat.closeStdin()
  const r = await cat.wait()
  t.assert.equal(r.exitCode, 0)
  t.assert.equal(r.stdout, 'first\nsecond\n')
  await t.refuses(() => box.commands.sendStdin(99999, 'x'), /not found/, t.NotFoundError)
  // Without it a command reads nothing, and does not wait.
  t.assert.equal((await box.commands.run('cat')).stdout, '')
}

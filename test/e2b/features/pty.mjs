export const name = 'terminals'

export async function run(t) {
  const box = await t.create()
  let seen = ''
  const dec = new TextDecoder()
  const p = await box.pty.create({ cols: 80, rows: 24, timeoutMs: 0, onData: (d) => { seen += dec.decode(d, { stream: true }) }, envs: { ABC: 'given' }, cwd: '/tmp' })
  const type = (s) => box.pty.sendInput(p.pid, new TextEncoder().encode(s))
  await type('stty size; echo "<$ABC>"; pwd; test -t 0 && echo is a tt""y\n')
  await t.until('its size and environment', () => /24 80/.test(seen) && seen.includes('<given>') && seen.includes('/tmp') && seen.includes('is a tty'))
  await box.pty.resize(p.pid, { cols: 100, rows: 40 })
  await type('stty size\n')
  await t.until('its new size', () => /40 100/.test(seen))
  await type('exit 4\n')
  await t.refuses(() => p.wait(), /exit status 4/, t.CommandExitError)

  const q = await box.pty.create({ cols: 80, rows: 24, onData: () => {} })
  t.assert.equal(await box.pty.kill(q.pid), true)
  await t.until('it is gone', async () => !(await box.pty.kill(q.pid)))
}

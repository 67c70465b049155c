export const name = 'commands: disconnect and connect'

export async function run(t) {
  const box = await t.create()
  const h = await box.commands.run('echo before; while [ ! -e /tmp/away ]; do sleep 0.05; done; echo away; touch /tmp/written; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo after; exit 5', { background: true })
  await t.until('it has begun', () => h.stdout === 'before\n')
  await h.disconnect()
  // Nobody listens, and it goes on: the next client gets what was written meanwhile, and
  // one beside it what comes.
  await box.files.write('/tmp/away', '')
  await t.until('it is written', () => box.files.exists('/tmp/written'))
  t.assert.ok((await box.commands.list()).some((p) => p.pid === h.pid))
  const out = []
  const again = await box.commands.connect(h.pid, { onStdout: (s) => out.push(s) })
  const third = await box.commands.connect(h.pid)
  await box.files.write('/tmp/go', '')
  for (const [c, want] of [[again, 'away\nafter\n'], [third, 'after\n']]) {
    const e = await t.refuses(() => c.wait(), /exit status 5/, t.CommandExitError)
    t.assert.equal(e.stdout, want)
  }
  t.assert.equal(out.join(''), 'away\nafter\n')
  // One that has ended still tells how, and one that never was is not found.
  const late = await box.commands.connect(h.pid)
  await t.refuses(() => late.wait(), /exit status 5/, t.CommandExitError)
  await t.refuses(() => box.commands.connect(99999), /not found/, t.NotFoundError)
  // By another client of the same sandbox.
  const other = await t.Sandbox.connect(box.sandboxId)
  t.assert.equal((await other.commands.run('echo other')).stdout, 'other\n')
}

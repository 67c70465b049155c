export const name = 'a sandbox that ends beneath a command'

export async function run(t) {
  const box = await t.create()
  t.assert.equal(await box.isRunning(), true)
  const h = await box.commands.run('echo begun; sleep 1000', { background: true })
  await t.until('it has begun', () => h.stdout === 'begun\n')
  const ended = h.wait().then(() => { throw new Error('it ended well') }, (e) => e)
  await box.kill()
  const e = await ended
  t.assert.ok(e instanceof t.TimeoutError || e instanceof t.SandboxNotFoundError, `${e.constructor.name}: ${e.message}`)
  t.assert.equal(await box.isRunning(), false)
  const late = await t.refuses(() => box.commands.run('true'), /./)
  t.assert.ok(late instanceof t.TimeoutError || late instanceof t.SandboxNotFoundError, `${late.constructor.name}: ${late.message}`)
  await t.refuses(() => box.files.read('/etc/hostname'), /./)
}

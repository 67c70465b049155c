export const name = 'files: watch'

export async function run(t) {
  const box = await t.create()
  await box.files.makeDir('/tmp/w/sub')
  const events = []
  const w = await box.files.watchDir('/tmp/w', (e) => events.push(e), { recursive: true, timeoutMs: 0 })
  const saw = (type, name) => t.until(`${type} ${name}`, () => events.some((e) => e.type === type && e.name === name))
  await box.files.write('/tmp/w/a', 'x')
  await saw('create', 'a')
  await saw('write', 'a')
  await box.files.write('/tmp/w/sub/b', 'x')
  await saw('create', 'sub/b')
  // Directories that come later are watched too, and what came into them first.
  await box.commands.run('mkdir -p /tmp/w/later/deep && echo x > /tmp/w/later/deep/c')
  await saw('create', 'later/deep/c')
  await box.commands.run('chmod 600 /tmp/w/a')
  await saw('chmod', 'a')
  await box.files.rename('/tmp/w/a', '/tmp/w/z')
  await saw('rename', 'a')
  await saw('create', 'z')
  await box.files.remove('/tmp/w/z')
  await saw('remove', 'z')
  await w.stop()
  const n = events.length
  await box.files.write('/tmp/w/unseen', '')
  await box.files.read('/tmp/w/unseen')
  t.assert.equal(events.length, n)

  const flat = []
  const f = await box.files.watchDir('/tmp/w', (e) => flat.push(e))
  await box.files.write('/tmp/w/sub/hidden', '')
  await box.files.write('/tmp/w/seen', '')
  await t.until('the file above', () => flat.some((e) => e.name === 'seen'))
  t.assert.ok(!flat.some((e) => e.name.includes('hidden')))
  await f.stop()
  await t.refuses(() => box.files.watchDir('/tmp/nowhere', () => {}), /does not exist/, t.NotFoundError)
  await t.refuses(() => box.files.watchDir('/tmp/w/seen', () => {}), /not a directory/)
}

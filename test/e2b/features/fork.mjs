export const name = 'fork'

export async function run(t) {
  const box = await t.create({ metadata: { kept: 'yes' }, timeoutMs: 600_000 })
  await box.files.write('/tmp/kept', 'kept')
  const forks = await box.fork({ count: 2, timeoutMs: 120_000 })
  t.assert.equal(forks.length, 2)
  const ids = new Set([box.sandboxId])
  for (const f of forks) {
    if (f instanceof Error) throw f
    t.keep(f)
    ids.add(f.sandboxId)
    const info = await f.getInfo()
    t.assert.deepEqual(info.metadata, { kept: 'yes' })
    t.assert.ok(info.endAt - info.startedAt <= 120_000)
    t.assert.equal(await f.files.read('/tmp/kept'), 'kept')
    await f.files.write('/tmp/kept', f.sandboxId)
    await t.inside(f)
  }
  t.assert.equal(ids.size, 3)
  t.assert.equal((await box.getInfo()).state, 'running')
  t.assert.equal(await box.files.read('/tmp/kept'), 'kept')
  await t.refuses(() => t.Sandbox.fork('i0000000000000000000'), /not found/, t.SandboxNotFoundError)
}

export const name = 'snapshots'

const all = async (p) => {
  const out = []
  while (p.hasNext) out.push(...(await p.nextItems()))
  return out
}

export async function run(t) {
  const box = await t.create()
  await box.files.write('/tmp/kept', 'kept')
  const snap = await box.createSnapshot()
  const own = async () => (await all(box.listSnapshots())).map((s) => s.snapshotId)
  t.assert.deepEqual(await own(), [snap.snapshotId])
  t.assert.equal((await box.getInfo()).state, 'running')
  const from = await t.create(snap.snapshotId)
  t.assert.notEqual(from.sandboxId, box.sandboxId)
  t.assert.equal(await from.files.read('/tmp/kept'), 'kept')
  await from.kill()

  const called = 'e2b-' + box.sandboxId.slice(1, 9)
  const named = await box.createSnapshot({ name: called })
  t.assert.deepEqual(named.names, [called + ':default'])
  t.assert.equal((await t.create(called)).sandboxId.length, box.sandboxId.length)

  for (const s of [snap, named]) {
    t.assert.equal(await t.Sandbox.deleteSnapshot(s.snapshotId), true)
    t.assert.equal(await t.Sandbox.deleteSnapshot(s.snapshotId), false)
    await t.refuses(() => t.create(s.snapshotId), /not found|no template/)
  }
  t.assert.deepEqual(await own(), [])
}

export const name = 'pause and connect, files alone'

export async function run(t) {
  const box = await t.create()
  if (t.keepsMemory) {
    // gVisor's states hold memory, always.
    await t.refuses(() => box.pause({ keepMemory: false }), /"memory"/)
    return { refused: 'memory: false' }
  }
  await box.files.write('/tmp/kept', 'kept')
  await box.commands.run('sleep 1000', { background: true })
  const boot = async () => (await box.commands.run('cat /proc/sys/kernel/random/boot_id')).stdout
  const before = await boot()
  t.assert.equal(await box.pause({ keepMemory: false }), true)
  t.assert.equal((await box.getInfo()).state, 'paused')
  await box.connect()
  t.assert.equal((await box.getInfo()).state, 'running')
  t.assert.equal(await box.files.read('/tmp/kept'), 'kept')
  t.assert.deepEqual(await box.commands.list(), [])
  await t.inside(box)
  t.assert.match(before, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\n$/)
  t.assert.notEqual(await boot(), before) // it is another boot
}

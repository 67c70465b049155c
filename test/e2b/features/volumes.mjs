export const name = 'volumes: create, files, destroy'

export async function run(t) {
  const { Volume, assert } = t
  const title = `e2b-${t.version.replaceAll('.', '-')}-${Date.now()}`
  const made = await Volume.create(title)
  try {
    assert.equal(made.name, title)
    await t.refuses(() => Volume.create(title), /409: .*exists/, t.VolumeError)
    await t.refuses(() => Volume.create('a/b'), /400: .*name/, t.VolumeError)
    assert.equal((await Volume.getInfo(made.volumeId)).token, made.token)
    assert.ok((await Volume.list()).some((v) => v.volumeId === made.volumeId && v.name === title))
    const volume = await Volume.connect(made.volumeId)

    assert.equal((await volume.makeDir('/a/b', { force: true })).type, 'directory')
    await t.refuses(() => volume.makeDir('/x/y'), /not found/, t.VolumePathNotFoundError)
    const entry = await volume.writeFile('/a/b/text', 'hello äöü', { mode: 0o600, uid: 0, gid: 7 })
    assert.deepEqual([entry.name, entry.path, entry.type, entry.size, entry.mode, entry.uid, entry.gid], ['text', '/a/b/text', 'file', 12, 0o600, 0, 7])
    assert.ok(Math.abs(entry.mtime - Date.now()) < 600_000)
    assert.equal(await volume.readFile('/a/b/text'), 'hello äöü')
    await t.refuses(() => volume.writeFile('/a/b/text', 'other'), /409: .*exists/, t.VolumeError)
    await volume.writeFile('/a/b/text', 'other', { force: true })
    assert.equal(await volume.readFile('a/b/text'), 'other')

    const bytes = new Uint8Array(3_000_000).map((_, i) => i * 7)
    await volume.writeFile('/bytes', bytes.buffer)
    assert.deepEqual(await volume.readFile('/bytes', { format: 'bytes' }), bytes)
    await volume.writeFile('/stream', new Blob([bytes]).stream())
    const parts = []
    for await (const part of await volume.readFile('/stream', { format: 'stream' })) parts.push(part)
    assert.ok(Buffer.concat(parts).equals(Buffer.from(bytes)))
    assert.equal((await volume.readFile('/stream', { format: 'blob' })).size, bytes.length)
    await volume.writeFile('/empty', '')
    assert.equal(await volume.readFile('/empty'), '')
    assert.equal((await volume.readFile('/empty', { format: 'bytes' })).length, 0)
    for await (const part of await volume.readFile('/empty', { format: 'stream' })) assert.equal(part.length, 0)

    assert.deepEqual((await volume.list('/')).map((e) => e.path), ['/a', '/bytes', '/empty', '/stream'])
    assert.deepEqual((await volume.list('/a', { depth: 2 })).map((e) => [e.path, e.type]), [['/a/b', 'directory'], ['/a/b/text', 'file']])
    const changed = await volume.updateMetadata('/a', { mode: 0o700, uid: 5 })
    assert.deepEqual([changed.mode, changed.uid, changed.gid], [0o700, 5, 1000])
    assert.equal((await volume.getInfo('/a')).mode, 0o700)

    await t.refuses(() => volume.readFile('/none'), /not found/, t.VolumePathNotFoundError)
    await t.refuses(() => volume.readFile('/../tokens.key'), /400: .*component/, t.VolumeError)
    await t.refuses(() => volume.readFile('/bytes', { token: 'x' }), /token of the volume/, t.AuthenticationError)
    await volume.remove('/a')
    assert.equal(await volume.exists('/a/b/text'), false)
    assert.equal(await volume.exists('/bytes'), true)
    // A volume is not mounted into sandboxes.
    await t.refuses(() => t.create({ volumeMounts: { '/data': volume } }), /volumeMounts.*cannot be mounted/)
  } finally {
    assert.equal(await Volume.destroy(made.volumeId), true)
  }
  assert.equal(await Volume.destroy(made.volumeId), false)
  await t.refuses(() => Volume.getInfo(made.volumeId), /not found/, t.VolumeNotFoundError)
  await t.refuses(() => made.readFile('/bytes'), /not found/, t.VolumePathNotFoundError)
}

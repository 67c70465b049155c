export const name = 'files: metadata'

export async function run(t) {
  const box = await t.create()
  const data = { author: 'somebody', 'Content-Kind': 'a test' }
  let info
  try {
    info = await box.files.write('/tmp/m', 'x', { metadata: data })
  } catch (e) {
    // Not every file system keeps attributes of files.
    t.assert.match(String(e.message), /does not support metadata/)
    return { refused: 'metadata' }
  }
  const want = { author: 'somebody', 'content-kind': 'a test' }
  t.assert.deepEqual({ ...info.metadata }, want)
  t.assert.deepEqual({ ...(await box.files.getInfo('/tmp/m')).metadata }, want)
  t.assert.deepEqual({ ...(await box.files.list('/tmp')).find((e) => e.name === 'm').metadata }, want)
  await box.files.write('/tmp/m', 'y', { metadata: { other: '1' } })
  t.assert.deepEqual({ ...(await box.files.getInfo('/tmp/m')).metadata }, { other: '1' })
}

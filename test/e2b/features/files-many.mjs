export const name = 'files: many, large, streams and bytes'

export async function run(t) {
  const box = await t.create()
  const many = Array.from({ length: 50 }, (_, i) => ({ path: `/tmp/many/${i % 5}/${i}`, data: `file ${i}` }))
  const infos = await box.files.write(many)
  t.assert.deepEqual(infos.map((i) => i.path), many.map((m) => m.path))
  t.assert.equal((await box.commands.run('cat /tmp/many/*/* | wc -c')).stdout.trim(), String(many.reduce((n, m) => n + m.data.length, 0)))

  const big = new Uint8Array(6 << 20)
  for (let i = 0; i < big.length; i += 997) big[i] = i & 255
  await box.files.write('/tmp/big', big.buffer)
  const sum = (await box.commands.run('sha256sum < /tmp/big')).stdout.split(' ')[0]
  const hash = async (b) => Buffer.from(await crypto.subtle.digest('SHA-256', b)).toString('hex')
  t.assert.equal(sum, await hash(big))
  t.assert.equal(await hash(await box.files.read('/tmp/big', { format: 'bytes' })), sum)
  const blob = await box.files.read('/tmp/big', { format: 'blob' })
  t.assert.equal(blob.size, big.length)
  const stream = await box.files.read('/tmp/big', { format: 'stream' })
  let bytes = 0
  for await (const c of stream) bytes += c.length
  t.assert.equal(bytes, big.length)

  await box.files.write('/tmp/streamed', new Blob(['a stream ', 'of parts']).stream())
  t.assert.equal(await box.files.read('/tmp/streamed'), 'a stream of parts')
  await box.files.write('/tmp/blob', new Blob([new Uint8Array([0, 255, 10])]))
  t.assert.deepEqual([...(await box.files.read('/tmp/blob', { format: 'bytes' }))], [0, 255, 10])
}

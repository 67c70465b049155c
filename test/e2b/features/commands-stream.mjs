export const name = 'commands: output as it comes'

export async function run(t) {
  const box = await t.create()
  const out = []
  const err = []
  const h = await box.commands.run('echo one; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo two; echo three >&2', {
    background: true, onStdout: (s) => out.push(s), onStderr: (s) => err.push(s),
  })
  await t.until('output comes before the end', () => out.join('') === 'one\n')
  await box.files.write('/tmp/go', '')
  await h.wait()
  t.assert.equal(out.join(''), 'one\ntwo\n')
  t.assert.equal(err.join(''), 'three\n')
  // Much of it, whole and in order.
  let bytes = 0
  const r = await box.commands.run('seq 1 100000', { onStdout: (s) => { bytes += s.length } })
  t.assert.equal(bytes, r.stdout.length)
  t.assert.equal(r.stdout, Array.from({ length: 100_000 }, (_, i) => `${i + 1}\n`).join(''))
}

export const name = 'auto-resume by a request'

export async function run(t) {
  if (!t.keepsMemory) {
    const e = await t.refuses(() => t.create({ lifecycle: { onTimeout: 'pause', autoResume: true } }), /"autoPause".*checkpoint/s)
    return e && { refused: 'autoPause' }
  }
  const box = await t.create({ lifecycle: { onTimeout: 'pause', autoResume: true } })
  await box.files.write('/tmp/kept', 'kept')
  const h = await box.commands.run('while [ ! -e /tmp/go ]; do sleep 0.05; done; echo woken', { background: true })
  await h.disconnect()
  await box.pause()
  // Many at once are one wake, and each is served.
  const got = await Promise.all(Array.from({ length: 10 }, () => box.files.read('/tmp/kept')))
  t.assert.deepEqual([...new Set(got)], ['kept'])
  const info = await box.getInfo()
  t.assert.equal(info.state, 'running')
  t.assert.ok(info.endAt - Date.now() > 60_000)
  const again = await box.commands.connect(h.pid)
  await box.files.write('/tmp/go', '')
  t.assert.equal((await again.wait()).stdout, 'woken\n')
  // A stranger wakes nobody.
  await box.pause()
  const r = await fetch(process.env.E2B_SANDBOX_URL + '/metrics', { headers: { 'E2b-Sandbox-Id': box.sandboxId, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': 'wrong' } })
  t.assert.equal(r.status, 401)
  await r.text()
  t.assert.equal((await box.getInfo()).state, 'paused')
}

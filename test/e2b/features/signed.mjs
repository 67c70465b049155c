export const name = 'signed addresses of files'

export async function run(t) {
  const box = await t.create()
  await box.files.write('/tmp/s', 'signed')
  const url = await box.downloadUrl('/tmp/s')
  let r = await fetch(url)
  t.assert.equal(r.status, 200)
  t.assert.equal(await r.text(), 'signed')
  r = await fetch(await box.downloadUrl('/tmp/s', { useSignatureExpiration: 120, user: 'user' }))
  t.assert.equal(await r.text(), 'signed')

  r = await fetch(await box.downloadUrl('/tmp/s', { useSignatureExpiration: -10 }))
  t.assert.deepEqual([r.status, await r.json()], [401, { code: 401, message: 'signature is already expired' }])
  for (const bad of [url.replace(/signature=v1_..../, 'signature=v1_AAAA'), url.replace('%2Ftmp%2Fs', '%2Fetc%2Fhostname'), url + '&signature_expiration=9999999999']) {
    t.assert.notEqual(bad, url)
    r = await fetch(bad)
    t.assert.deepEqual([r.status, await r.json()], [401, { code: 401, message: 'invalid signature' }])
  }
  // To read is not to write.
  const form = new FormData()
  form.append('file', new Blob(['uploaded']), '/tmp/u')
  r = await fetch(url, { method: 'POST', body: form })
  t.assert.equal(r.status, 401)
  await r.text()
  r = await fetch(await box.uploadUrl('/tmp/u', { useSignatureExpiration: 120 }), { method: 'POST', body: form })
  t.assert.deepEqual([r.status, await r.json()], [200, [{ name: 'u', path: '/tmp/u', type: 'file' }]])
  t.assert.equal(await box.files.read('/tmp/u'), 'uploaded')
  // A dead sandbox signs nothing.
  await box.kill()
  r = await fetch(url)
  t.assert.ok(r.status === 401 || r.status === 502)
  await r.text()
}

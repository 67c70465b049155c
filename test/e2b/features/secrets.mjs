export const name = 'secrets, and headers of requests (network.rules)'

export async function run(t) {
  const { Secret, assert } = t
  const key = `e2b-${t.version.replaceAll('.', '-')}-${Date.now()}`
  const made = await Secret.create(key.toUpperCase(), 'canary-first-value', { metadata: { team: 'a' } })
  try {
    assert.equal(made.name, key)
    assert.match(made.secretId, /^sec_/)
    assert.equal(made.version, 1)
    assert.deepEqual(made.metadata, { team: 'a' })
    assert.ok(Math.abs(made.createdAt - Date.now()) < 600_000 && made.updatedAt >= made.createdAt)
    await t.refuses(() => Secret.create(key, 'canary-other-value'), /409: .*exists/, t.SecretError)
    await t.refuses(() => Secret.create('a b', 'canary-other-value'), /400: .*name/, t.SecretError)
    await t.refuses(() => Secret.create(key + '-2', 'short'), /400: .*minimum is 8/, t.SecretError)

    for (const by of [key, made.secretId]) {
      assert.deepEqual(await Secret.getInfo(by), made)
      assert.equal(await Secret.exists(by), true)
    }
    const second = await Secret.update(made.secretId, 'canary-second-value')
    assert.deepEqual([second.version, second.metadata, second.secretId], [2, { team: 'a' }, made.secretId])
    const third = await Secret.update(key, 'canary-third-value', { metadata: {} })
    assert.deepEqual([third.version, third.metadata], [3, {}])

    const other = await Secret.create(key + '-2', 'canary-other-value')
    const found = []
    for (const pages = Secret.list({ limit: 1 }); pages.hasNext; ) {
      const page = await pages.nextItems()
      assert.ok(page.length <= 1)
      found.push(...page.map((s) => s.name))
    }
    assert.ok(found.indexOf(key + '-2') >= 0 && found.indexOf(key) > found.indexOf(key + '-2'), found.join())
    assert.ok(!JSON.stringify(await Secret.list().nextItems()).includes('canary'))
    assert.equal(await Secret.destroy(other.secretId), true)
    assert.equal(await Secret.exists(key + '-2'), false)

    // Rules are part of the network of a sandbox, and allow nothing.
    const rules = { 'api.example.org': [{ transform: { headers: { Authorization: `Bearer ${Secret.fill(key)}`, 'X-Env': 'test' } } }] }
    const box = await t.create({ allowInternetAccess: false, network: { denyOut: ['0.0.0.0/0'], rules } })
    const network = async () => (await box.getInfo()).network
    assert.deepEqual((await network()).rules, rules)
    assert.equal((await box.getInfo()).allowInternetAccess, false)
    const env = await box.commands.run('env; cat /proc/self/environ')
    assert.ok(!env.stdout.includes('canary'))
    const next = { '*.example.org': [{ transform: { headers: { 'X-Key': Secret.fill(key) } } }] }
    await box.updateNetwork({ allowInternetAccess: false, rules: next })
    assert.deepEqual((await network()).rules, next)
    await box.updateNetwork({})
    assert.equal((await network()).rules, undefined)

    const rule = (value) => ({ allowInternetAccess: false, rules: { 'api.example.org': [{ transform: { headers: { 'X-Key': value } } }] } })
    await t.refuses(() => box.updateNetwork(rule(Secret.fill(key + '-2'))), /400: .*network\.rules.*there is no secret/)
    await t.refuses(() => box.updateNetwork(rule('${e2b.identity.tokens.aws}')), /network\.rules.*identity/)
    await t.refuses(() => box.updateNetwork(rule('a\r\nX-Other: b')), /network\.rules.*line break/)
    await box.updateNetwork(rule('plain')) // the control
  } finally {
    assert.equal(await Secret.destroy(key), true)
  }
  assert.equal(await Secret.destroy(key), false)
  await t.refuses(() => Secret.getInfo(key), /not found/, t.SecretNotFoundError)
  await t.refuses(() => Secret.update(key, 'canary-value'), /not found/, t.SecretNotFoundError)
}

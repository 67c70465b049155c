export const name = 'allowInternetAccess, allowOut, denyOut, updateNetwork'

export async function run(t) {
  const box = await t.create({ allowInternetAccess: false, network: { denyOut: ['0.0.0.0/0'] } })
  await box.updateNetwork({ allowInternetAccess: false, denyOut: ['10.0.0.0/8'] })
  await box.updateNetwork({})
  await t.refuses(() => box.updateNetwork({ denyOut: ['example.com'] }), /denyOut/)
  const internet = async () => (await box.getInfo()).allowInternetAccess
  t.assert.equal(await internet(), false)

  // What opens the network is in effect, or refused by its name where this machine cannot.
  const opened = async (update, option) => {
    const error = await box.updateNetwork(update).then(() => null, (e) => e)
    if (error) t.assert.match(String(error.message), option)
    return !error
  }
  const opens = await opened({ allowInternetAccess: true }, /allow_internet_access/)
  t.assert.equal(await internet(), opens)
  t.assert.equal(await opened({ allowOut: ['8.8.8.8'] }, /allowOut/), opens)
  t.assert.equal(await internet(), false)
  if (opens) {
    await box.updateNetwork({ allowOut: ['example.com'], denyOut: ['0.0.0.0/0'] })
    const { network } = await box.getInfo()
    t.assert.deepEqual(network.allowOut, ['example.com'])
  }
  await box.updateNetwork({})
  t.assert.equal(await internet(), false)
}

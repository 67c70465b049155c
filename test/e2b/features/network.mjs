export const name = 'updateNetwork, as far as it is what holds'

export async function run(t) {
  const box = await t.create({ allowInternetAccess: false, network: { denyOut: ['0.0.0.0/0'] } })
  await box.updateNetwork({ allowInternetAccess: false, denyOut: ['10.0.0.0/8'] })
  await box.updateNetwork({})
  await t.refuses(() => box.updateNetwork({ allowInternetAccess: true }), /allow_internet_access/)
  await t.refuses(() => box.updateNetwork({ allowOut: ['8.8.8.8'] }), /allowOut/)
  await t.refuses(() => box.updateNetwork({ denyOut: ['example.com'] }), /denyOut/)
}

export const name = 'what is not there is refused by its name'

export async function run(t) {
  const no = (opts, match) => t.refuses(() => t.create(opts), match)
  await no({ network: { denyOut: ['example.com'] } }, /network\.denyOut/)
  await no({ network: { rules: { 'example.com': [{ transform: { headers: { Host: 'b' } } }] } } }, /network\.rules.*Host/)
  await no({ network: { maskRequestHost: 'example.com' } }, /network\.maskRequestHost/)
  await no({ volumeMounts: { '/data': 'volume' } }, /volumeMounts/)
  await no({ timeoutMs: 90_000_000 }, /timeout/)
  await t.refuses(() => t.create('nosuch'), /nosuch.*not found|no template.*nosuch/)
  await t.refuses(() => t.create('code-interpreter-v2'), /code-interpreter-v2/)
  await t.refuses(() => t.Sandbox.list({ apiKey: 'e2b_' + '0'.repeat(40) }).nextItems(), /./, t.AuthenticationError)
  await t.refuses(() => t.Sandbox.getInfo('../v2/templates'), /not found/)
}

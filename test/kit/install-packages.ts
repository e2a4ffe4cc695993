import { execute } from '../../apps/cli/setup/execute.js'
import { say, showing } from '../../apps/cli/setup/say.js'
import { findBinary } from './find-binary.ts'

/** Installs packages of the system from apt; false, with the reason on stderr, where we are not root or it has none. */
export async function installPackages(...names: readonly string[]): Promise<boolean> {
  if (process.getuid?.() !== 0 || findBinary('apt-get') === null) return false
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const { ok, output } = await showing(`installing ${names.join(', ')} for the tests`, async () => {
    // Without an index it may still have them.
    await execute('apt-get', ['update'], { env })
    return execute('apt-get', ['install', '-y', '--no-install-recommends', ...names], { env })
  })
  if (!ok) say(`apt has none of ${names.join(', ')}: ${output.trim().split('\n').at(-1)}`)
  return ok
}

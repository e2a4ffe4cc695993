import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findBinary, root } from './find-binary.ts'
import { installPackages } from './install-packages.ts'

const run = promisify(execFile)
const house = join(root, '.baton', 'python')
/** The oldest that the packages of test/foreign/requirements.txt run on. */
const FLOOR = 'import sys; sys.exit(sys.version_info < (3, 10))'

/**
 * A Python of our own under `.baton/` with exactly the packages a requirements file names: made from the one in
 * BATON_PYTHON or on PATH, or one from apt where we are root. Null, with the reason on stderr, where there is none to be
 * had: who wants it is skipped then.
 */
export async function pythonWith(requirements: string): Promise<string | null> {
  const python = join(house, 'bin', 'python')
  const wanted = readFileSync(requirements, 'utf8')
  const stamp = join(house, 'requirements.txt')
  if (read(stamp) === wanted && (await works(python))) return python
  try {
    rmSync(house, { recursive: true, force: true })
    await makeHouse()
    await run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r', requirements])
    // Written last: what was cut off half-way is made again.
    writeFileSync(stamp, wanted)
    return python
  } catch (error) {
    const { stderr } = error as { stderr?: string }
    process.stderr.write(
      `no Python with ${requirements}: ${(stderr ?? '').trim().split('\n').at(-1) || String(error)}\n`,
    )
    return null
  }
}

/** A Debian has the venv apart from its Python. */
async function makeHouse(): Promise<void> {
  const make = async (): Promise<void> => {
    const python = await findPython()
    if (python === null) throw new Error('no Python 3.10 or newer')
    mkdirSync(join(root, '.baton'), { recursive: true })
    await run(python, ['-m', 'venv', '--clear', house])
  }
  await make().catch(async (error: unknown) => {
    if (!(await installPackages('python3', 'python3-venv'))) throw error
    await make()
  })
}

async function findPython(): Promise<string | null> {
  for (const path of [findBinary('python3', 'BATON_PYTHON'), findBinary('python'), '/usr/bin/python3']) {
    if (path !== null && (await works(path))) return path
  }
  return null
}

const works = (python: string): Promise<boolean> =>
  run(python, ['-c', FLOOR]).then(
    () => true,
    () => false,
  )

function read(file: string): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}
